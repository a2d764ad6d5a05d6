/* dtypes.c: the dtypes, with all of their names. */
#include <string.h>

#include "cli.h"

/*
 * bfloat16 has no type of its own in .npy. ml_dtypes, and so JAX, writes it as two bytes of void; '<V2' here is
 * byte for byte what they write, and what numpy.load(f).view(ml_dtypes.bfloat16) reads.
 */
static const struct dtype_info dtypes[] = {
        { "f16", "float16", "f2", { 2, 16, 1 }, 2 },
        { "bf16", "bfloat16", "V2", { 4, 16, 1 }, 2 },
        { "f32", "float32", "f4", { 2, 32, 1 }, 4 },
        { "f64", "float64", "f8", { 2, 64, 1 }, 8 },
        { "i8", "int8", "i1", { 0, 8, 1 }, 1 },
        { "i16", "int16", "i2", { 0, 16, 1 }, 2 },
        { "i32", "int32", "i4", { 0, 32, 1 }, 4 },
        { "i64", "int64", "i8", { 0, 64, 1 }, 8 },
        { "u8", "uint8", "u1", { 1, 8, 1 }, 1 },
        { "u16", "uint16", "u2", { 1, 16, 1 }, 2 },
        { "u32", "uint32", "u4", { 1, 32, 1 }, 4 },
        { "u64", "uint64", "u8", { 1, 64, 1 }, 8 },
        { "bool", "bool_", "b1", { 6, 8, 1 }, 1 },
};
static const size_t ndtypes = sizeof(dtypes) / sizeof(dtypes[0]);

const char dtype_list[] = "f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64 or bool";

const struct dtype_info *dtype_by_name(const char *name)
{
        for (size_t i = 0; i < ndtypes; i++)
                if (!strcmp(name, dtypes[i].name) || !strcmp(name, dtypes[i].numpy))
                        return &dtypes[i];
        return NULL;
}

/* Void is not a number type: two bytes of it are bfloat16 only if the user says so (--view
 * bf16). */
const struct dtype_info *dtype_by_letters(char kind, int32_t size)
{
        for (size_t i = 0; i < ndtypes; i++)
                if (kind != 'V' && kind == dtypes[i].letters[0] && size == dtypes[i].size)
                        return &dtypes[i];
        return NULL;
}

int dtype_is_float(const struct dtype_info *info)
{
        return info->dtype.code == SF_F32.code || info->dtype.code == SF_BF16.code;
}

int dtype_is_unsigned(const struct dtype_info *info)
{
        return info->dtype.code == SF_U8.code;
}
