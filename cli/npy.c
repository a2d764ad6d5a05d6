/*
 * npy.c: reading and writing .npy headers.
 *
 * The header may come from anywhere, so the parser trusts nothing in it: the cursor never passes
 * the end, there is one function for each kind of value in the dictionary, and there is no
 * recursion and no allocation.
 */
#include "npy.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct cursor {
        const unsigned char *at, *end;
        char *why;
};

static int refuse(char *why, const char *format, ...) CLI_PRINTF(2, 3);
static int refuse(char *why, const char *format, ...)
{
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(why, NPY_WHY_SIZE, format, arguments);
        va_end(arguments);
        return NPY_REFUSED;
}

/* Text from the file, made safe for a terminal: short, and without control characters. */
struct shown {
        char text[41];
};

static struct shown show(const unsigned char *text, size_t length)
{
        struct shown shown;
        size_t n = length < sizeof(shown.text) - 1 ? length : sizeof(shown.text) - 1;
        for (size_t i = 0; i < n; i++)
                shown.text[i] = text[i] >= 0x20 && text[i] < 0x7f ? (char)text[i] : '?';
        shown.text[n] = 0;
        if (length > n)
                memcpy(shown.text + n - 3, "...", 3);
        return shown;
}

static void skip_space(struct cursor *c)
{
        while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
                c->at++;
}

/* The next character that is not space, or -1 at the end. It is not consumed. */
static int peek(struct cursor *c)
{
        skip_space(c);
        return c->at < c->end ? *c->at : -1;
}

static int accept_char(struct cursor *c, int wanted)
{
        if (peek(c) != wanted)
                return 0;
        c->at++;
        return 1;
}

/* A quoted string without escapes: no key and no dtype needs one. */
static int read_string(struct cursor *c, const unsigned char **text, size_t *length)
{
        int quote = peek(c);
        if (quote != '\'' && quote != '"')
                return -1;
        const unsigned char *start = ++c->at;
        while (c->at < c->end && *c->at != quote && *c->at != '\\' && *c->at != '\n')
                c->at++;
        if (c->at == c->end || *c->at != quote)
                return -1;
        *text = start;
        *length = (size_t)(c->at - start);
        c->at++;
        return 0;
}

static int read_word(struct cursor *c, const char *word)
{
        size_t length = strlen(word);
        skip_space(c);
        if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length))
                return 0;
        c->at += length;
        return 1;
}

static const char *kind_name(int kind)
{
        switch (kind) {
        case 'c': return "complex numbers";
        case 'S': case 'a': return "byte strings";
        case 'U': return "text";
        case 'm': return "time differences";
        case 'M': return "dates";
        case 'O': return "Python objects";
        default: return NULL;
        }
}

static int native_is_little(void)
{
        const uint16_t one = 1;
        return *(const unsigned char *)&one == 1;
}

/* '<f4': a byte order, a letter, a size. The byte order may be missing, as in NumPy. */
static int read_descr(struct cursor *c, struct npy_header *header)
{
        int next = peek(c);
        if (next == '[' || next == '(')
                return refuse(c->why, "has a structured dtype; save each of its fields as an array of its own");
        const unsigned char *text;
        size_t length;
        if (read_string(c, &text, &length))
                return refuse(c->why, "has a damaged header: its 'descr' is not a quoted dtype");
        struct shown shown = show(text, length);
        int order = '=';
        if (length && strchr("<>|=", text[0]) && text[0]) {
                order = text[0];
                text++;
                length--;
        }
        int little = order == '<' || (order != '>' && native_is_little());
        int kind = length ? text[0] : 0;
        if (kind == '?' && length == 1) {
                header->kind = 'b';
                header->itemsize = 1;
                header->swapped = 0;
                return 0;
        }
        if (kind_name(kind))
                return refuse(c->why, "holds %s (dtype '%s'); scanfold reads %s", kind_name(kind), shown.text,
                              dtype_list);
        int32_t size = 0;
        for (size_t i = 1; i < length; i++) {
                if (text[i] < '0' || text[i] > '9' || size > 99999)
                        size = -1;
                if (size < 0)
                        break;
                size = size * 10 + (text[i] - '0');
        }
        int known = kind == 'V' ? (size == 1 || size == 2 || size == 4 || size == 8)
                                : kind && dtype_by_letters((char)kind, size) != NULL;
        if (!known)
                return refuse(c->why, "has dtype '%s', which scanfold does not know; it reads %s", shown.text,
                              dtype_list);
        header->kind = (char)kind;
        header->itemsize = size;
        header->swapped = size > 1 && little != native_is_little();
        return 0;
}

/* A tuple of lengths: (), (3,), (3, 4), (3, 4,); Python 2 wrote 3L. (3) is a number, not a tuple;
 * NumPy refuses it too. */
static int read_shape(struct cursor *c, struct npy_header *header)
{
        if (!accept_char(c, '('))
                return refuse(c->why, "has a damaged header: its 'shape' is not a tuple");
        header->ndim = 0;
        int commas = 0;
        while (!accept_char(c, ')')) {
                int next = peek(c);
                if (next == '-')
                        return refuse(c->why, "has a damaged header: a length in its 'shape' is negative");
                if (next < '0' || next > '9' || commas < header->ndim)
                        return refuse(c->why, "has a damaged header: its 'shape' is not a tuple of lengths");
                if (header->ndim == SF_MAX_NDIM)
                        return refuse(c->why, "has more than %d dimensions, the most scanfold works with", SF_MAX_NDIM);
                int64_t length = 0;
                if (next == '0' && c->end - c->at > 1 && c->at[1] >= '0' && c->at[1] <= '9')
                        return refuse(c->why, "has a damaged header: a length in its 'shape' begins with 0");
                while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
                        int digit = *c->at++ - '0';
                        if (length > (INT64_MAX - digit) / 10)
                                return refuse(c->why, "has a damaged header: a length in its 'shape' does not fit "
                                                      "in 64 bits");
                        length = length * 10 + digit;
                }
                if (c->at < c->end && *c->at == 'L')
                        c->at++;
                header->shape[header->ndim++] = length;
                commas += accept_char(c, ',');
        }
        if (header->ndim == 1 && !commas)
                return refuse(c->why, "has a damaged header: its 'shape' is not a tuple");
        return 0;
}

static int read_fortran(struct cursor *c, struct npy_header *header)
{
        header->fortran = peek(c) == 'T';
        if (!read_word(c, header->fortran ? "True" : "False"))
                return refuse(c->why, "has a damaged header: its 'fortran_order' is neither True nor False");
        return 0;
}

static int read_dictionary(struct cursor *c, struct npy_header *header)
{
        static const struct {
                const char *key;
                int (*read)(struct cursor *, struct npy_header *);
        } keys[] = { { "descr", read_descr }, { "fortran_order", read_fortran }, { "shape", read_shape } };
        int seen[3] = { 0, 0, 0 };

        if (!accept_char(c, '{'))
                return refuse(c->why, "has a damaged header: it is not a dictionary");
        while (!accept_char(c, '}')) {
                const unsigned char *text;
                size_t length;
                if (read_string(c, &text, &length) || !accept_char(c, ':'))
                        return refuse(c->why, "has a damaged header: it is not a dictionary with quoted keys");
                int k = 0;
                while (k < 3 && (length != strlen(keys[k].key) || memcmp(text, keys[k].key, length)))
                        k++;
                if (k == 3 || seen[k])
                        return refuse(c->why, "has a damaged header: its key '%s' is %s", show(text, length).text,
                                      k == 3 ? "none of descr, fortran_order and shape" : "there twice");
                seen[k] = 1;
                if (keys[k].read(c, header))
                        return -1;
                if (!accept_char(c, ',') && peek(c) != '}')
                        return refuse(c->why, "has a damaged header: something other than a comma follows its '%s'",
                                      keys[k].key);
        }
        for (int k = 0; k < 3; k++)
                if (!seen[k])
                        return refuse(c->why, "has a damaged header: it lacks '%s'", keys[k].key);
        if (peek(c) != -1)
                return refuse(c->why, "has a damaged header: something follows the dictionary");
        return 0;
}

int npy_byte_count(int32_t ndim, const int64_t *shape, int32_t itemsize, int64_t *bytes)
{
        int64_t product = itemsize;
        int zero = 0;
        for (int32_t i = 0; i < ndim; i++) {
                if (!shape[i])
                        zero = 1;
                else if (product > INT64_MAX / shape[i])
                        return -1;
                else
                        product *= shape[i];
        }
        *bytes = zero ? 0 : product;
        return 0;
}

int npy_parse(const unsigned char *file, uint64_t size, struct npy_header *header, uint64_t *need,
              char why[NPY_WHY_SIZE])
{
        static const unsigned char magic[6] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };

        memset(header, 0, sizeof(*header));
        *need = 10;
        if (size == 0)
                return refuse(why, "is empty; a .npy file was expected"), NPY_SHORT;
        if (size >= 4 && !memcmp(file, "PK\003\004", 4))
                return refuse(why, "is a zip archive, perhaps .npz; unzip it and pass one of the .npy files inside");
        if (memcmp(file, magic, size < 6 ? size : 6))
                return refuse(why, "is not a .npy file: it does not begin with \\x93NUMPY");
        if (size < 10)
                return refuse(why, "is cut short: it ends within the first 10 bytes of a .npy "
                                   "file"), NPY_SHORT;
        int major = file[6], minor = file[7];
        if (major < 1 || major > 3 || minor != 0)
                return refuse(why, "is .npy version %d.%d; scanfold reads versions 1.0, 2.0 and 3.0", major, minor);
        uint64_t start = *need = major == 1 ? 10 : 12;
        if (size < start)
                return refuse(why, "is cut short: it ends within the first 12 bytes of a .npy "
                                   "file"), NPY_SHORT;
        uint64_t length = file[8] | (uint64_t)file[9] << 8;
        if (major > 1)
                length |= (uint64_t)file[10] << 16 | (uint64_t)file[11] << 24;
        *need = start + (length <= NPY_HEADER_MOST ? length : NPY_HEADER_MOST + 1);
        if (size < *need)
                return refuse(why,
                              "is cut short: its header should be %" PRIu64 " bytes, but only %" PRIu64 " follow",
                              length, size - start), NPY_SHORT;
        if (length > NPY_HEADER_MOST)
                return refuse(why, "has a header of %" PRIu64 " bytes; an array of numbers needs "
                                   "no more than %d", length, NPY_HEADER_MOST);

        struct cursor c = { file + start, file + start + length, why };
        if (read_dictionary(&c, header))
                return NPY_REFUSED;
        int64_t bytes;
        if (npy_byte_count(header->ndim, header->shape, header->itemsize, &bytes) ||
            bytes > INT64_MAX - NPY_START_MOST)
                return refuse(why, "has a damaged header: its 'shape' holds more bytes than 64 bits can count");
        header->data_offset = start + length;
        header->count = bytes / header->itemsize;
        *need = header->data_offset + (uint64_t)bytes;
        if (size < *need)
                return refuse(why, "is cut short: its shape needs %" PRId64 " bytes of data, but only %" PRIu64
                                   " follow the header",
                              bytes, size - header->data_offset), NPY_SHORT;
        return NPY_READ;
}

size_t npy_write_header(char buffer[NPY_HEADER_ROOM], const struct dtype_info *dtype, int32_t ndim,
                        const int64_t *shape)
{
        /* 64 lengths of at most 19 digits and ", " take 1344 bytes, which fits NPY_HEADER_ROOM with
         * everything else. */
        char order = dtype->size == 1 ? '|' : native_is_little() ? '<' : '>';
        size_t at = 10;
        at += (size_t)snprintf(buffer + at, NPY_HEADER_ROOM - at,
                               "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, dtype->letters);
        for (int32_t i = 0; i < ndim; i++)
                at += (size_t)snprintf(buffer + at, NPY_HEADER_ROOM - at, "%s%" PRId64, i ? ", " : "", shape[i]);
        at += (size_t)snprintf(buffer + at, NPY_HEADER_ROOM - at, "%s), }", ndim == 1 ? "," : "");
        while ((at + 1) % 64)
                buffer[at++] = ' ';
        buffer[at++] = '\n';
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): not a string: the format begins with these eight bytes */
        memcpy(buffer, "\x93NUMPY\x01\x00", 8);
        buffer[8] = (char)((at - 10) & 0xff);
        buffer[9] = (char)((at - 10) >> 8);
        return at;
}
