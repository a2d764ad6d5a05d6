/* embed.h: the kernel files, put into the library by cmake/embed.cmake when it is built. */
#ifndef SF_CUDA_EMBED_H
#define SF_CUDA_EMBED_H

typedef struct sf_embedded {
        const char *name; /* "scan_rows.cu" */
        const char *text;
} sf_embedded;

/* Ends with a row of NULLs. */
extern const sf_embedded sf_embedded_files[];

#endif
