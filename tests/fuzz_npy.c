/*
 * fuzz_npy.c: seeded mutations of valid .npy files through the command line's parser.
 *
 *     fuzz_npy [COUNT [SEED]]
 *
 * Nothing may crash (build it with -fsanitize=address,undefined), nothing may be read past the
 * end of the file (each is copied to an allocation of exactly its size), and what is accepted
 * must be consistent: lengths of 0 or more, a count that is their product, data within the file,
 * a dtype that exists. What is refused must come with a sentence. A stream shows its beginning
 * first: what is refused there is refused as a whole, and who is asked for more is told how much.
 */
#include "../cli/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SF_LIBFUZZER /* which makes its own files */
static uint64_t state;

static uint64_t draw(uint64_t below)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state % below;
}

static const char *const dictionaries[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n",
        "{'descr': '>i8', 'fortran_order': True, 'shape': (2, 3, 5), }    \n",
        "{'descr': '|b1', 'fortran_order': False, 'shape': (), }\n",
        "{\"shape\": (7,), \"descr\": \"<u2\", \"fortran_order\": False}\n",
        "{'descr': '|V2', 'fortran_order': False, 'shape': (0, 9223372036854775807), }\n",
        "{'descr': [('a', '<f4'), ('b', '|O')], 'fortran_order': False, 'shape': (2L, 3L), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2), }\n",
};
enum { NDICTIONARIES = sizeof(dictionaries) / sizeof(dictionaries[0]), ROOM = 4096 };

/* Pieces that mean something to the parser: more likely to lead somewhere than random bytes. */
static const char *const pieces[] = {
        "(", ")", ",", "'", "\"", "{", "}", "[", ":", "\\", "\n", " ", "True", "False", "L", "-1", "0", "1", "99", "<", ">",
        "|", "f4", "V2", "O", "c16", "U5", "(1,)", "shape", "descr", "9223372036854775808", "18446744073709551616",
};
enum { NPIECES = sizeof(pieces) / sizeof(pieces[0]) };

static size_t build(unsigned char *file)
{
        const char *text = dictionaries[draw(NDICTIONARIES)];
        size_t length = strlen(text);
        int version = 1 + (int)draw(3);
        size_t start = version == 1 ? 10 : 12;
        memcpy(file, "\x93NUMPY", 6);
        memset(file + 6, 0, 6);
        file[6] = (unsigned char)version;
        file[8] = (unsigned char)length;
        memcpy(file + start, text, length);
        size_t data = (size_t)draw(300);
        memset(file + start + length, 0x5a, data);
        return start + length + data;
}

/* Cuts `cut` bytes at `at` and puts `length` bytes of text there. */
static size_t splice(unsigned char *file, size_t size, size_t at, size_t cut, const char *text, size_t length)
{
        if (at + cut > size || size - cut + length > ROOM)
                return size;
        memmove(file + at + length, file + at + cut, size - at - cut);
        memcpy(file + at, text, length);
        return size - cut + length;
}

static size_t mutate(unsigned char *file, size_t size)
{
        size_t at = (size_t)draw(size < 90 ? size : 90); /* where headers are */
        const char *piece = pieces[draw(NPIECES)];
        switch (draw(6)) {
        case 0:
                file[at] ^= (unsigned char)(1u << draw(8));
                return size;
        case 1:
                file[at] = (unsigned char)draw(256);
                return size;
        case 2:
                return splice(file, size, at, 0, piece, strlen(piece));
        case 3:
                return splice(file, size, at, (size_t)draw(8), piece, strlen(piece));
        case 4:
                return draw(8) ? size : (size_t)draw(size) + 1; /* cut short */
        default: /* make the length fit again, so that mutations reach further than the length check */
                if (size > 12) {
                        size_t start = file[6] == 1 ? 10 : 12;
                        const unsigned char *end = memchr(file + start, '\n', size - start);
                        if (end)
                                file[8] = (unsigned char)(end + 1 - (file + start));
                }
                return size;
        }
}

#endif

static const char *inconsistency(const struct npy_header *h, uint64_t size)
{
        if (h->ndim < 0 || h->ndim > SF_MAX_NDIM)
                return "ndim";
        if (!(h->itemsize == 1 || h->itemsize == 2 || h->itemsize == 4 || h->itemsize == 8))
                return "itemsize";
        if (h->kind != 'V' && !dtype_by_letters(h->kind, h->itemsize))
                return "kind";
        uint64_t count = 1;
        for (int32_t i = 0; i < h->ndim; i++) {
                if (h->shape[i] < 0)
                        return "a negative length";
                if (h->shape[i] == 0)
                        count = 0;
        }
        for (int32_t i = 0; i < h->ndim && count; i++)
                count *= (uint64_t)h->shape[i];
        if (h->count < 0 || (uint64_t)h->count != count)
                return "count";
        if (h->data_offset > size || count > (size - h->data_offset) / (uint64_t)h->itemsize)
                return "data past the end";
        return NULL;
}

/* The first `size` bytes of a file, by themselves, of which the whole is refused or not. */
static const char *wrong_beginning(const unsigned char *file, size_t size, int whole_refused)
{
        unsigned char *exact = malloc(size ? size : 1);
        if (!exact)
                return "no memory";
        memcpy(exact, file, size);
        struct npy_header header;
        uint64_t need = 0;
        char why[NPY_WHY_SIZE] = "";
        int result = npy_parse(exact, size, &header, &need, why);
        free(exact);
        if (result == NPY_REFUSED && !whole_refused)
                return "its beginning is refused, the whole is not";
        if (result == NPY_READ)
                return inconsistency(&header, size);
        if (!why[0])
                return "no sentence";
        if (result == NPY_SHORT && (need <= size || (!header.data_offset && need > NPY_START_MOST)))
                return "a wrong number of bytes to go on with";
        return NULL;
}

/* What is wrong with how a file was taken, of which also the first `beginning` bytes by themselves; NULL: nothing. */
static const char *wrong_file(const unsigned char *file, size_t size, size_t beginning, int *refused)
{
        unsigned char *exact = malloc(size ? size : 1);
        if (!exact)
                return "no memory";
        if (size)
                memcpy(exact, file, size);
        struct npy_header header;
        char why[NPY_WHY_SIZE] = "";
        uint64_t need;
        *refused = npy_parse(exact, size, &header, &need, why) != NPY_READ;
        const char *wrong = *refused ? (why[0] ? NULL : "no sentence") : inconsistency(&header, size);
        free(exact);
        return wrong ? wrong : wrong_beginning(file, beginning, *refused);
}

#ifdef SF_LIBFUZZER
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
        int refused;
        const char *wrong = wrong_file(data, size, size / 2, &refused);
        if (wrong) {
                fprintf(stderr, "%s\n", wrong);
                abort();
        }
        return 0;
}
#else
int main(int argc, char **argv)
{
        long count = argc > 1 ? strtol(argv[1], NULL, 10) : 200000;
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
        long accepted = 0;
        static unsigned char file[ROOM];

        for (long i = 0; i < count; i++) {
                state = (seed * 1000003u + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u | 1;
                size_t size = build(file);
                for (uint64_t n = draw(6); n > 0; n--)
                        size = mutate(file, size);
                int refused;
                const char *wrong = wrong_file(file, size, (size_t)draw(size), &refused);
                if (wrong) {
                        fprintf(stderr, "seed %llu, mutation %ld: %s\n", (unsigned long long)seed, i, wrong);
                        return 1;
                }
                accepted += !refused;
        }
        printf("%ld files, %ld accepted\n", count, accepted);
        return accepted > 0 && accepted < count ? 0 : 1;
}
#endif
