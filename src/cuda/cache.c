/* One cached binary: its key, its file, and whether it is valid. */
#include "cuda/cache.h"

#include "cuda/cache_sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = {'s', 'c', 'a', 'n', 'f', 'o', 'l', 'd'};
#define FORMAT 1
/* No kernel of ours comes near this; a file that claims more is not ours. */
#define MOST_BYTES ((uint64_t)64 << 20)

/* ------------------------------------------------------------------------------------------------
 * Keys
 * ---------------------------------------------------------------------------------------------- */

/* The length comes first, so that no two lists of texts give the same bytes. */
static void add_text(sf_sha256 *s, const char *text)
{
        uint64_t length = strlen(text);
        sf_sha256_add(s, &length, sizeof length);
        sf_sha256_add(s, text, length);
}

void sf_cache_key_make(sf_cache_key *key, const sf_compiler *compiler, const sf_cuda_spec *spec, const char *source, const char *arch)
{
        sf_sha256 s;
        const char *text;
        struct stat file;
        char version[64];

        /* NVRTC reports only its major and minor version; two builds of one version differ in the
         * size of their files. */
        long long size = stat(compiler->path, &file) ? 0 : (long long)file.st_size;
        snprintf(version, sizeof version, "%d %d.%d %lld", FORMAT, (int)compiler->major, (int)compiler->minor, size);
        sf_sha256_start(&s);
        add_text(&s, version);
        add_text(&s, arch);
        for (int32_t i = 0; (text = sf_jit_option(i)); i++)
                add_text(&s, text);
        add_text(&s, source);
        memset(key, 0, sizeof *key);
        sf_sha256_end(&s, key->hash);
        const char *op = sf_op_name((sf_op)spec->op);
        bool known = spec->in >= 0 && spec->in < SF_DT_COUNT && spec->out >= 0 && spec->out < SF_DT_COUNT;
        snprintf(key->about, sizeof key->about, "%s%s %s %s to %s, %s, NVRTC %d.%d",
                 spec->fused.loads || spec->fused.stores ? "fused " : "", sf_cuda_kernel_name(spec->kernel), op ? op : "?",
                 known ? sf_dtypes[spec->in].name : "?", known ? sf_dtypes[spec->out].name : "?", arch, (int)compiler->major,
                 (int)compiler->minor);
}

static void entry_path(const sf_cache_key *key, const char *folder, char path[SF_CACHE_PATH + 80])
{
        char name[65];
        for (int i = 0; i < 32; i++)
                snprintf(name + 2 * i, 3, "%02x", key->hash[i]);
        snprintf(path, SF_CACHE_PATH + 80, "%s/%s" SF_CACHE_SUFFIX, folder, name);
}

/* ------------------------------------------------------------------------------------------------
 * Files
 * ---------------------------------------------------------------------------------------------- */
static void checksum(const sf_cache_header *header, const void *image, unsigned char digest[32])
{
        sf_cache_header bare = *header;
        sf_sha256 s;
        memset(bare.checksum, 0, sizeof bare.checksum);
        sf_sha256_start(&s);
        sf_sha256_add(&s, &bare, sizeof bare);
        sf_sha256_add(&s, image, header->size);
        sf_sha256_end(&s, digest);
}

static bool read_all(int file, void *to, size_t size)
{
        char *at = to;
        while (size) {
                ssize_t got = read(file, at, size);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return false;
                at += got;
                size -= (size_t)got;
        }
        return true;
}

static bool write_all(int file, const void *from, size_t size)
{
        const char *at = from;
        while (size) {
                ssize_t put = write(file, at, size);
                if (put < 0 && errno == EINTR)
                        continue;
                if (put <= 0)
                        return false;
                at += put;
                size -= (size_t)put;
        }
        return true;
}

static bool load_from(int file, sf_cache_header *header, void **image)
{
        struct stat about;
        unsigned char digest[32];
        /* This is code for the device: accept only files that this user or root owns. */
        if (fstat(file, &about) || !S_ISREG(about.st_mode) || (about.st_uid != geteuid() && about.st_uid != 0))
                return false;
        if (!read_all(file, header, sizeof *header) || memcmp(header->magic, magic, sizeof magic) || header->version != FORMAT ||
            header->size == 0 || header->size > MOST_BYTES || (uint64_t)about.st_size != sizeof *header + header->size)
                return false;
        *image = malloc(header->size + 1);
        if (!*image || !read_all(file, *image, header->size))
                return false;
        ((char *)*image)[header->size] = '\0';
        checksum(header, *image, digest);
        return !memcmp(digest, header->checksum, sizeof digest) && memchr(header->key.about, '\0', SF_CACHE_ABOUT);
}

bool sf_cache_load(const char *path, sf_cache_header *header, void **image)
{
        void *bytes = NULL;
        int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file < 0)
                return false;
        bool whole = load_from(file, header, &bytes);
        close(file);
        if (whole && image)
                *image = bytes;
        else
                free(bytes);
        return whole;
}

bool sf_cache_read(const sf_cache_key *key, sf_binary *binary)
{
        char folder[SF_CACHE_PATH], path[SF_CACHE_PATH + 80];
        sf_cache_header header;
        if (!sf_cache_folder(folder, false))
                return false;
        entry_path(key, folder, path);
        if (!sf_cache_load(path, &header, &binary->image))
                return false;
        if (memcmp(header.key.hash, key->hash, sizeof key->hash)) {
                free(binary->image);
                binary->image = NULL;
                return false;
        }
        binary->size = header.size;
        binary->ptx = header.ptx != 0;
        utimensat(AT_FDCWD, path, NULL, 0); /* used now; a failure does not matter */
        return true;
}

bool sf_cache_write(const sf_cache_key *key, const sf_binary *binary)
{
        char folder[SF_CACHE_PATH], path[SF_CACHE_PATH + 80], temporary[SF_CACHE_PATH + 80];
        sf_cache_header header;
        if (!sf_cache_limit() || !sf_cache_folder(folder, true))
                return false;
        entry_path(key, folder, path);
        memset(&header, 0, sizeof header); /* padding is checksummed too */
        memcpy(header.magic, magic, sizeof magic);
        header.version = FORMAT;
        header.ptx = binary->ptx;
        header.size = binary->size;
        header.key = *key;
        checksum(&header, binary->image, header.checksum);
        snprintf(temporary, sizeof temporary, "%s/temporary-XXXXXX", folder);
        int file = mkostemp(temporary, O_CLOEXEC);
        if (file < 0)
                return false;
        bool done = write_all(file, &header, sizeof header) && write_all(file, binary->image, binary->size);
        done = !close(file) && done;
        done = done && !rename(temporary, path);
        if (!done)
                unlink(temporary);
        else
                sf_cache_wrote(folder, (int64_t)(sizeof header + binary->size));
        return done;
}

void sf_cache_forget(const sf_cache_key *key)
{
        char folder[SF_CACHE_PATH], path[SF_CACHE_PATH + 80];
        if (!sf_cache_folder(folder, false))
                return;
        entry_path(key, folder, path);
        unlink(path);
}
