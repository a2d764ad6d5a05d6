/* bench_compare.c: reads the numbers of a file that bench --json wrote. */
#include "bench_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* Leaves out the spaces between tokens, so that a file that another program has written anew reads the same. */
static void pack(char *text)
{
        char *to = text;
        int quoted = 0;
        for (const char *from = text; *from; from++) {
                quoted ^= *from == '"';
                if (quoted || !strchr(" \t\r\n", *from))
                        *to++ = *from;
        }
        *to = 0;
}

int old_read(const char *path, char **text)
{
        FILE *file = fopen(path, "rb");
        if (!file)
                return complain("cannot open %s: %s", path, strerror(errno));
        *text = malloc(MOST_BYTES);
        const size_t size = *text ? fread(*text, 1, MOST_BYTES, file) : 0;
        const int failed = ferror(file);
        fclose(file);
        if (*text && !failed && size < MOST_BYTES) {
                (*text)[size] = 0;
                pack(*text);
                if (strstr(*text, "\"rows\":["))
                        return CLI_DONE;
        }
        free(*text);
        *text = NULL;
        return complain("%s is not a file that bench --json wrote", path);
}

double old_fraction(const char *text, const struct bench_line *line)
{
        char key[256], *end;
        snprintf(key, sizeof(key), "{\"work\":\"%s\",\"shape\":\"%s\",\"dtype\":\"%s\",", line->work, line->shape, line->dtype);
        const char *row = strstr(text, key), *at = row ? strstr(row, "\"fraction\":") : NULL;
        const char *next = row ? strchr(row, '}') : NULL;
        if (!at || !next || at > next)
                return NAN;
        at += strlen("\"fraction\":");
        const double fraction = strtod(at, &end);
        return end > at && fraction > 0 ? fraction : NAN;
}
