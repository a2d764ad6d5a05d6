/*
 * jit.h: a specialisation becomes a binary: prelude and kernel file, through NVRTC.
 *
 * Compiling needs no GPU and no driver: tests compile for chips this machine does not have.
 */
#ifndef SF_CUDA_JIT_H
#define SF_CUDA_JIT_H

#include "cuda/launch.h"

/* What came out of the compiler. Free the image with free(). */
typedef struct sf_binary {
        void *image;
        size_t size;
        bool ptx; /* text that the driver finishes, NUL-terminated: the chip is newer than the compiler knows */
} sf_binary;

typedef struct sf_compiler {
        int32_t major, minor; /* of CUDA: 13, 0 */
        char path[256];       /* the file it came from */
        int32_t narches;
        int32_t arches[64]; /* the chips it knows, such as 90, smallest first */
} sf_compiler;

/*
 * NVRTC, loaded on first use; looked for again after a failure. `driver_major` is the CUDA version of the driver that will
 * load the binaries (0: any): a compiler no newer than it is preferred.
 */
sf_status sf_jit_compiler(const sf_context *ctx, int32_t driver_major, const sf_compiler **compiler);

/*
 * What the binary for `capability` is made with: "sm_90", or "compute_120" (to PTX) for a chip newer than the compiler knows.
 * Fails, with a sentence, for a chip it no longer knows.
 */
sf_status sf_jit_arch(const sf_context *ctx, const sf_compiler *compiler, int32_t capability, char arch[16]);

/* The options every kernel is compiled with, beside the architecture; NULL past the end. */
const char *sf_jit_option(int32_t index);

/*
 * Compiles `source` for `arch`, as sf_jit_arch gives it. On failure the sentence holds the start of the compiler's log. `log`, if not
 * NULL, is set to the compiler's log with what the assembler says of registers and spills; the caller frees it.
 */
sf_status sf_jit_compile(const sf_context *ctx, const sf_compiler *compiler, const char *name, const char *source, const char *arch,
                         sf_binary *binary, char **log);

#endif
