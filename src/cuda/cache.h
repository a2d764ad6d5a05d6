/*
 * cache.h: compiled binaries kept on disk: a kernel is compiled once a machine, not once a process.
 *
 * The folder is SCANFOLD_CACHE_DIR; else scanfold in XDG_CACHE_HOME; else .cache/scanfold in HOME.
 * If SCANFOLD_CACHE_DIR is empty, if there is no home, or if the folder cannot be written, nothing
 * is kept and everything else works. SCANFOLD_CACHE_MB is the most that the folder may hold (256);
 * beyond it, the least recently used entries are removed first. With 0 nothing is kept.
 *
 * An entry is one file, named by its key: the SHA-256 of everything that determines the binary
 * (source, options, compiler, chip). It has a header, which repeats the key, and a checksum of
 * everything. An entry that is damaged, truncated, of another format, or not owned by this user or
 * root is treated as absent, and is replaced. Files are renamed when they are complete, so any
 * number of processes may read and write at once.
 */
#ifndef SF_CUDA_CACHE_H
#define SF_CUDA_CACHE_H

#include "cuda/jit.h"

#include <sys/types.h>

#define SF_CACHE_ABOUT 120
#define SF_CACHE_SUFFIX ".sfbin"
#define SF_CACHE_PATH 1024

typedef struct sf_cache_key {
        unsigned char hash[32];
        char about[SF_CACHE_ABOUT]; /* for people: "scan_rows sum f32 to f32, sm_90, NVRTC 13.0" */
} sf_cache_key;

/* The beginning of a file; the image follows at once. Numbers have the machine's byte order: with
 * another order the checksum fails. */
typedef struct sf_cache_header {
        char magic[8];
        uint32_t version;
        uint32_t ptx;
        uint64_t size; /* of the image */
        sf_cache_key key;
        unsigned char checksum[32]; /* of the header, with this field zero, and the image */
} sf_cache_header;

/* The key of what sf_jit_compile(compiler, ..., source, arch) would return. */
void sf_cache_key_make(sf_cache_key *key, const sf_compiler *compiler, const sf_cuda_spec *spec, const char *source, const char *arch);

bool sf_cache_read(const sf_cache_key *key, sf_binary *binary);        /* true: the caller frees binary->image */
bool sf_cache_write(const sf_cache_key *key, const sf_binary *binary); /* false: it was not kept */
void sf_cache_forget(const sf_cache_key *key);                         /* the driver refused it */

/* ------------------------------------------------------------------------------------------------
 * cache_files.c
 * ---------------------------------------------------------------------------------------------- */
/* The folder, created if `make` is set. False, and an empty path, if there is none. */
bool sf_cache_folder(char path[SF_CACHE_PATH], bool make);
int64_t sf_cache_limit(void); /* bytes */

/* Calls `visit` (which may be NULL) for every entry that is not damaged; returns how many. */
typedef void sf_cache_visitor(void *user, const char *name, const char *about, int64_t bytes, int64_t used);
int64_t sf_cache_each(sf_cache_visitor *visit, void *user);

/* Removes all entries, also damaged ones and left-over temporary files. Returns how many, or -1 if
 * some could not be removed. */
int64_t sf_cache_clear_files(void);

/* Removes entries until the folder is under its limit, and files that dead processes left
 * half-written. Returns the bytes that are left. */
int64_t sf_cache_trim(const char *folder);

/* Call this after each file that is written: it trims when necessary. Listing the folder each time
 * would make many writes slow. */
void sf_cache_wrote(const char *folder, int64_t bytes);

/* In cache.c: reads and checks one entry; returns the image only if `image` is not NULL. */
bool sf_cache_load(const char *path, sf_cache_header *header, void **image);

#endif
