/* options.c: parses numbers. The program never calls setlocale, so strtod expects a decimal
 * point. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int starts_like_number(const char *text)
{
        /* strtoll and similar functions skip leading space, which is not allowed here. */
        return *text && !strchr(" \t\n\v\f\r", *text);
}

int parse_int(const char *text, int64_t low, int64_t high, int64_t *value)
{
        char *end;
        if (!starts_like_number(text))
                return -1;
        errno = 0;
        long long number = strtoll(text, &end, 10);
        if (errno || end == text || *end || number < low || number > high)
                return -1;
        *value = number;
        return 0;
}

int parse_bytes(const char *text, int64_t *value)
{
        char *end;
        if (!starts_like_number(text))
                return -1;
        errno = 0;
        long long number = strtoll(text, &end, 10);
        if (errno || end == text || number <= 0)
                return -1;
        int shift = 0;
        if (*end) {
                const char *suffixes = "KMGT", *found = strchr(suffixes, *end);
                if (!found || end[1])
                        return -1;
                shift = 10 * (int)(found - suffixes + 1);
        }
        if (number > INT64_MAX >> shift)
                return -1;
        *value = (int64_t)number << shift;
        return 0;
}

int parse_scalar(const char *text, sf_scalar *value)
{
        char *end;
        if (!starts_like_number(text))
                return -1;
        errno = 0;
        long long whole = strtoll(text, &end, 10);
        if (end != text && !*end && !errno) {
                *value = sf_int(whole);
                return 0;
        }
        errno = 0;
        unsigned long long natural = strtoull(text, &end, 10);
        if (end != text && !*end && !errno && *text != '-') {
                *value = sf_uint(natural);
                return 0;
        }
        double real = strtod(text, &end);
        if (end == text || *end)
                return -1;
        *value = sf_real(real);
        return 0;
}

int read_threads(const char *command, const char *text, int32_t *threads)
{
        int64_t number;
        if (parse_int(text, 1, 65536, &number))
                return complain_usage(command, "--threads is %s; it must be a number of threads, "
                                               "1 to 65536", text);
        *threads = (int32_t)number;
        return CLI_DONE;
}
