/*
 * jit.h: compiles a specialisation, prelude and kernel file, to a binary with NVRTC.
 *
 * Compiling needs no GPU and no driver: tests compile for chips that this machine does not have.
 */
#ifndef SF_CUDA_JIT_H
#define SF_CUDA_JIT_H

#include "cuda/launch.h"

/* The compiler's output. Free the image with free(). */
typedef struct sf_binary {
        void *image;
        size_t size;
        /* text that the driver compiles, NUL-terminated; for a chip newer than the compiler
         * knows */
        bool ptx;
} sf_binary;

typedef struct sf_compiler {
        int32_t major, minor; /* of CUDA: 13, 0 */
        char path[256];       /* the file it came from */
        int32_t narches;
        int32_t arches[64]; /* the chips it knows, such as 90, smallest first */
} sf_compiler;

/*
 * NVRTC, loaded on first use; after a failure, the next call looks for it again. `driver_major` is
 * the CUDA version of the driver that will load the binaries (0: any): a compiler no newer than
 * that is preferred.
 */
sf_status sf_jit_compiler(const sf_context *ctx, int32_t driver_major, const sf_compiler **compiler);

/*
 * The architecture to compile for: "sm_90", or "compute_120" (to PTX) for a chip newer than the
 * compiler knows. Fails with a sentence for a chip that it no longer knows.
 */
sf_status sf_jit_arch(const sf_context *ctx, const sf_compiler *compiler, int32_t capability, char arch[16]);

/* The options of every kernel, besides the architecture; NULL past the end. */
const char *sf_jit_option(int32_t index);

/*
 * Compiles `source` for `arch`, as sf_jit_arch returns it. On failure the sentence contains the
 * start of the compiler's log. If `log` is not NULL, it is set to the compiler's log, with the
 * assembler's report of registers and spills; the caller frees it.
 */
sf_status sf_jit_compile(const sf_context *ctx, const sf_compiler *compiler, const char *name, const char *source, const char *arch,
                         sf_binary *binary, char **log);

#endif
