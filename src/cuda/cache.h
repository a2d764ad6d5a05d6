/*
 * cache.h: compiled binaries kept on disk, so that a kernel is compiled once a machine and not once a process.
 *
 * The folder is SCANFOLD_CACHE_DIR; else scanfold in XDG_CACHE_HOME; else .cache/scanfold in HOME. With SCANFOLD_CACHE_DIR set to
 * nothing, or with no home, or with a folder that cannot be written, nothing is kept and all else works. SCANFOLD_CACHE_MB is
 * the most the folder may hold (256); beyond it the entries least recently used go first. 0 keeps nothing.
 *
 * An entry is one file named by its key: the SHA-256 of all that determines the binary (source, options, compiler, chip). It
 * holds a header, which repeats the key, and a checksum of everything. One that is damaged, cut short, of another format, or not this
 * user's (nor root's) is as good as absent, and is replaced. Files appear whole by renaming, so any number of processes may read
 * and write at once.
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
        char about[SF_CACHE_ABOUT]; /* for people: "scan_rows sum f32 f32 f32 sm_90 NVRTC 13.0" */
} sf_cache_key;

/* What a file begins with; the image follows at once. Numbers are the machine's own: a foreign order fails the checksum. */
typedef struct sf_cache_header {
        char magic[8];
        uint32_t version;
        uint32_t ptx;
        uint64_t size; /* of the image */
        sf_cache_key key;
        unsigned char checksum[32]; /* of header, with this field zero, and image */
} sf_cache_header;

/* The key of what sf_jit_compile(compiler, ..., source, arch) would give. */
void sf_cache_key_make(sf_cache_key *key, const sf_compiler *compiler, const sf_cuda_spec *spec, const char *source, const char *arch);

bool sf_cache_read(const sf_cache_key *key, sf_binary *binary);        /* true: the caller frees binary->image */
bool sf_cache_write(const sf_cache_key *key, const sf_binary *binary); /* false: it could not be kept, which harms nobody */
void sf_cache_forget(const sf_cache_key *key);                         /* the driver refused it */

/* ------------------------------------------------------------------------------------------------------------
 * cache_files.c
 * ---------------------------------------------------------------------------------------------------------- */
/* The folder, made if `make` is set. False, and an empty path, if there is none or it cannot be made. */
bool sf_cache_folder(char path[SF_CACHE_PATH], bool make);
int64_t sf_cache_limit(void); /* bytes */

/* Calls `visit` (which may be NULL) for every whole entry; returns how many. Damaged ones are passed over. */
typedef void sf_cache_visitor(void *user, const char *name, const char *about, int64_t bytes, int64_t used);
int64_t sf_cache_each(sf_cache_visitor *visit, void *user);

/* Removes all entries, damaged ones and left-over temporary files too; returns how many, or -1 if some could not be. */
int64_t sf_cache_clear_files(void);

/* Brings the folder under its limit and removes what dead processes left half-written; returns the bytes it then holds. */
int64_t sf_cache_trim(const char *folder);

/* To be told of every file written: trims when it is time to. Listing the folder each time would make many writes slow. */
void sf_cache_wrote(const char *folder, int64_t bytes);

/* One entry's file, checked; the image only if `image` is not NULL. cache.c */
bool sf_cache_load(const char *path, sf_cache_header *header, void **image);

#endif
