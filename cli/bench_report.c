/*
 * bench_report.c: the measurements of bench, with the machine, the compiler and the commit that
 * they were made with.
 *
 * The page is python/scanfold/report.html, which draws the JSON that replaces @DATA@.
 */
#include "bench_report.h"
#include "cuda/embed.h"
#include "files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

extern const sf_embedded report_files[];

static void cpu_model(char *text, size_t room)
{
        snprintf(text, room, "unknown");
        FILE *file = fopen("/proc/cpuinfo", "r");
        char line[256];
        while (file && fgets(line, sizeof(line), file)) {
                char *colon = strchr(line, ':');
                if (!strncmp(line, "model name", 10) && colon) {
                        colon[strcspn(colon, "\n")] = 0;
                        snprintf(text, room, "%s", colon + 1 + (colon[1] == ' '));
                        break;
                }
        }
        if (file)
                fclose(file);
}

static const char *compiler(void)
{
#if defined(__clang__)
        return "clang " __clang_version__;
#elif defined(__GNUC__)
        return "gcc " __VERSION__;
#else
        return "unknown";
#endif
}

/* '<' is escaped too: in a page, "</script>" would end the data. */
static void print_json_text(FILE *file, const char *key, const char *text)
{
        fprintf(file, "  \"%s\": \"", key);
        for (; *text; text++) {
                if (*text == '"' || *text == '\\')
                        fputc('\\', file);
                if (*text == '<')
                        fputs("\\u003c", file);
                else if ((unsigned char)*text >= 0x20)
                        fputc(*text, file);
        }
        fputs("\",\n", file);
}

static void print_json(FILE *file, const struct bench_report *report)
{
        struct utsname system;
        char cpu[256], kernel[256] = "unknown";
        cpu_model(cpu, sizeof(cpu));
        if (!uname(&system))
                snprintf(kernel, sizeof(kernel), "%.60s %.60s %.60s", system.sysname, system.release, system.machine);
        fputs("{\n", file);
        print_json_text(file, "version", sf_version_string());
        print_json_text(file, "commit", SF_COMMIT);
        print_json_text(file, "compiler", compiler());
        print_json_text(file, "cpu", cpu);
        print_json_text(file, "system", kernel);
        print_json_text(file, "instructions", sf_context_isa(report->ctx));
        fprintf(file, "  \"threads\": %d,\n  \"rounds\": %d,\n  \"quick\": %s,\n  \"rows\": [", sf_context_threads(report->ctx),
                report->rounds, report->quick ? "true" : "false");
        for (int i = 0; i < report->count; i++) {
                const struct bench_line *line = &report->lines[i];
                fprintf(file, "%s    {\"work\": \"%s\", \"shape\": \"%s\", \"dtype\": \"%s\", \"bytes\": %llu, ", i ? ",\n" : "\n",
                        line->work, line->shape, line->dtype, (unsigned long long)line->bytes);
                fprintf(file, "\"seconds\": %.9f, \"peer\": \"%s\", \"peer_seconds\": %.9f, \"fraction\": %.4f}", line->seconds,
                        line->peer, line->peer_seconds, line->peer_seconds / line->seconds);
        }
        fputs("\n  ]\n}\n", file);
}

static void print_page(FILE *file, const struct bench_report *report)
{
        static const char mark[] = "@DATA@";
        const char *text = report_files[0].text, *place = strstr(text, mark);
        fwrite(text, 1, (size_t)(place - text), file);
        print_json(file, report);
        fputs(place + strlen(mark), file);
}

/* The report is made in memory first, so that the file appears complete or not at all. */
int write_report(const struct bench_report *report, const char *path, int page)
{
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        if (file)
                (page ? print_page : print_json)(file, report);
        if (!file || fclose(file))
                return complain("not enough memory for the table");
        struct output output;
        int status = output_create(&output, path, size);
        if (!status) {
                memcpy(output.file.start, text, size);
                status = outputs_commit(&output, 1);
        }
        free(text);
        return status;
}
