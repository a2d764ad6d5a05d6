/* An NVRTC of our own making: fake.h says what for. Its binaries are their sources, behind a word the fake driver looks for. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_nvrtc fake_nvrtc_state = {.major = 13, .minor = 0, .oldest = 75, .newest = 121};
#define fake fake_nvrtc_state
#define CALLED(name)                                                                                               \
        do {                                                                                                       \
                if (fake.fails && fake.fails(#name))                                                               \
                        return 1;                                                                                  \
        } while (0)

typedef struct program {
        char *source;
        const char *log;
} program;

EXPORT const char *nvrtcGetErrorString(int code);
EXPORT int nvrtcVersion(int *major, int *minor);
EXPORT int nvrtcGetNumSupportedArchs(int *count);
EXPORT int nvrtcGetSupportedArchs(int *arches);
EXPORT int nvrtcCreateProgram(program **made, const char *source, const char *name, int headers, const char *const *texts,
                              const char *const *names);
EXPORT int nvrtcDestroyProgram(program **p);
EXPORT int nvrtcCompileProgram(program *p, int count, const char *const *options);
EXPORT int nvrtcGetCUBINSize(program *p, size_t *size);
EXPORT int nvrtcGetCUBIN(program *p, char *cubin);
EXPORT int nvrtcGetPTXSize(program *p, size_t *size);
EXPORT int nvrtcGetPTX(program *p, char *ptx);
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *size);
EXPORT int nvrtcGetProgramLog(program *p, char *log);

static const int known[] = {75, 80, 86, 89, 90, 100, 120, 121};

const char *nvrtcGetErrorString(int code)
{
        return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}
int nvrtcVersion(int *major, int *minor)
{
        *major = fake.major;
        *minor = fake.minor;
        return 0;
}
int nvrtcGetNumSupportedArchs(int *count)
{
        *count = 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                *count += known[i] >= fake.oldest && known[i] <= fake.newest;
        return 0;
}
int nvrtcGetSupportedArchs(int *arches)
{
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
                if (known[i] >= fake.oldest && known[i] <= fake.newest)
                        *arches++ = known[i];
        return 0;
}
int nvrtcCreateProgram(program **made, const char *source, const char *name, int headers, const char *const *texts, const char *const *names)
{
        CALLED(nvrtcCreateProgram);
        (void)name, (void)headers, (void)texts, (void)names;
        *made = malloc(sizeof **made);
        **made = (program){strdup(source), ""};
        return 0;
}
int nvrtcDestroyProgram(program **p)
{
        free((*p)->source);
        free(*p);
        return 0;
}
int nvrtcCompileProgram(program *p, int count, const char *const *options)
{
        CALLED(nvrtcCompileProgram);
        const char *wait = getenv("FAKE_NVRTC_MS"); /* a slow compiler */
        if (wait)
                usleep(1000 * (useconds_t)atoi(wait));
        fake.options[0] = '\0';
        for (int i = 0; i < count; i++)
                strcat(strcat(fake.options, options[i]), " ");
        fake.compiles++;
        p->log = fake.fail ? "scan_rows.cu(7): error: the test told it so" : "";
        return fake.fail ? 6 : 0;
}

static size_t binary(const program *p, const char *word, char *to)
{
        if (to)
                strcat(strcpy(to, word), p->source);
        return strlen(word) + strlen(p->source) + 1;
}
int nvrtcGetCUBINSize(program *p, size_t *size)
{
        CALLED(nvrtcGetCUBINSize);
        *size = binary(p, "fake cubin ", NULL);
        return 0;
}
int nvrtcGetCUBIN(program *p, char *cubin)
{
        CALLED(nvrtcGetCUBIN);
        binary(p, "fake cubin ", cubin);
        return 0;
}
int nvrtcGetPTXSize(program *p, size_t *size)
{
        CALLED(nvrtcGetPTXSize);
        *size = binary(p, "fake ptx ", NULL);
        return 0;
}
int nvrtcGetPTX(program *p, char *ptx)
{
        CALLED(nvrtcGetPTX);
        binary(p, "fake ptx ", ptx);
        return 0;
}
int nvrtcGetProgramLogSize(program *p, size_t *size)
{
        *size = strlen(p->log) + 1;
        return 0;
}
int nvrtcGetProgramLog(program *p, char *log)
{
        strcpy(log, p->log);
        return 0;
}
