/* SHA-256 (FIPS 180-4): the name and the checksum of a cached binary. Speed does not matter here;
 * two keys must never be equal. */
#ifndef SF_CUDA_CACHE_SHA256_H
#define SF_CUDA_CACHE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sf_sha256 {
        uint32_t state[8];
        uint64_t length; /* bytes so far */
        unsigned char block[64];
} sf_sha256;

void sf_sha256_start(sf_sha256 *s);
void sf_sha256_add(sf_sha256 *s, const void *data, size_t size);
void sf_sha256_end(sf_sha256 *s, unsigned char digest[32]);

#endif
