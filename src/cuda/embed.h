/* embed.h: the kernel files, which cmake/embed.cmake puts into the library when it is built. */
#ifndef SF_CUDA_EMBED_H
#define SF_CUDA_EMBED_H

typedef struct sf_embedded {
        const char *name; /* "scan_rows.cu" */
        const char *text;
} sf_embedded;

/* The last row is all NULL. */
extern const sf_embedded sf_embedded_files[];

#endif
