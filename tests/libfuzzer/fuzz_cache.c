/*
 * Cache files under libFuzzer: the bytes are a file of the kernel cache. What is taken has a checksum that fits, so half of them are given one.
 * Nothing may crash or be read past its end, and what is loaded is what the file said.
 */
#include "cuda/cache.h"
#include "cuda/cache_sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void give_checksum(unsigned char *bytes, size_t size)
{
        sf_cache_header header;
        sf_sha256 s;
        memcpy(&header, bytes, sizeof header);
        memset(header.checksum, 0, sizeof header.checksum);
        header.size = size - sizeof header;
        sf_sha256_start(&s);
        sf_sha256_add(&s, &header, sizeof header);
        sf_sha256_add(&s, bytes + sizeof header, size - sizeof header);
        sf_sha256_end(&s, header.checksum);
        memcpy(bytes, &header, sizeof header);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        static int file = -1;
        static char path[64];
        if (file < 0) {
                snprintf(path, sizeof path, "/tmp/fuzz_cache.%d", (int)getpid());
                FILE *made = fopen(path, "w+");
                if (!made)
                        abort();
                file = fileno(made);
        }
        unsigned char *bytes = malloc(size + 1);
        if (!bytes)
                abort();
        memcpy(bytes, data, size);
        if (size > sizeof(sf_cache_header) && bytes[size - 1] & 1)
                give_checksum(bytes, size);
        if (ftruncate(file, 0) || pwrite(file, bytes, size, 0) != (ssize_t)size)
                abort();
        sf_cache_header header;
        void *image = NULL;
        if (sf_cache_load(path, &header, &image) &&
            (header.size + sizeof header != size || memcmp(image, bytes + sizeof header, header.size) || strlen(header.key.about) >= SF_CACHE_ABOUT))
                abort();
        free(image);
        free(bytes);
        return 0;
}
