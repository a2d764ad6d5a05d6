/* Which instruction sets this CPU has, and how their kernels are found. */
#include "cpu/kernels.h"
#include "cpu/fused.h"

#include <pthread.h>
#include <string.h>

/* The best one comes last. */
static const sf_cpu_isa *const isas[] = {
#ifdef SF_HAVE_PORTABLE
        &sf_isa_portable,
#endif
#ifdef SF_HAVE_NEON
        &sf_isa_neon,
#endif
#ifdef SF_HAVE_AVX2
        &sf_isa_avx2,
#endif
#ifdef SF_HAVE_AVX512
        &sf_isa_avx512,
#endif
};

#define ISA_COUNT ((int32_t)(sizeof isas / sizeof *isas))

static void make_tables(void)
{
        for (int32_t i = 0; i < ISA_COUNT; i++)
                sf_lanes_make_whole(isas[i]->whole, isas[i]->vector_bytes, isas[i]->permute_bytes);
}

sf_status sf_cpu_choose(const char *name, const sf_cpu_isa **isa)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, make_tables);
        for (int32_t i = ISA_COUNT - 1; i >= 0; i--) {
                if (name && strcmp(name, isas[i]->name))
                        continue;
                if (isas[i]->usable()) {
                        *isa = isas[i];
                        return SF_OK;
                }
                if (name)
                        return sf_fail(NULL, SF_UNSUPPORTED, "instruction set %s was asked for, but this CPU does not have it", name);
        }
        char have[128] = "";
        for (int32_t i = 0; i < ISA_COUNT; i++) {
                strcat(have, i ? ", " : "");
                strcat(have, isas[i]->name);
        }
        return sf_fail(NULL, SF_INVALID_ARGUMENT, "instruction set \"%s\" is not one this build has; it has %s", name, have);
}

const char *sf_cpu_isa_name(const sf_cpu_isa *isa)
{
        return isa->name;
}

const char *sf_isa_name(int32_t index, int32_t *usable)
{
        if (index < 0 || index >= ISA_COUNT)
                return NULL;
        if (usable)
                *usable = isas[index]->usable();
        return isas[index]->name;
}

bool sf_cpu_streams_programs(void)
{
#ifdef __x86_64__
        __builtin_cpu_init();
        return !__builtin_cpu_is("skylake-avx512") && !__builtin_cpu_is("cascadelake") && !__builtin_cpu_is("cooperlake");
#else
        return true;
#endif
}

static const sf_cpu_kernels *look_up(const sf_cpu_type *type, sf_dt storage, sf_dt acc, sf_op op)
{
        for (; type->of; type++)
                if (type->storage == storage && type->acc == acc && type->of[op]->width)
                        return type->of[op];
        return NULL;
}

/* Where the sign does not matter, signed integers use the kernels of unsigned ones. */
const sf_cpu_kernels *sf_cpu_find(const sf_cpu_isa *isa, sf_dt storage, sf_dt acc, sf_op op)
{
        static const sf_dt unsigned_of[SF_DT_COUNT] = {
                [SF_DT_I8] = SF_DT_U8, [SF_DT_I16] = SF_DT_U16, [SF_DT_I32] = SF_DT_U32, [SF_DT_I64] = SF_DT_U64};
        if (sf_dtypes[acc].kind == SF_KIND_REAL)
                return look_up(isa->reals, storage, acc, op);
        const sf_cpu_kernels *found = look_up(isa->integers, storage, acc, op);
        const bool widens = sf_dtypes[storage].bits < sf_dtypes[acc].bits;
        if (found || sf_dtypes[acc].kind != SF_KIND_SIGNED || (storage != acc && !widens))
                return found;
        return look_up(isa->integers, storage == acc ? unsigned_of[storage] : storage, unsigned_of[acc], op);
}

const sf_cpu_kernels *sf_cpu_counts(const sf_cpu_isa *isa, int64_t size)
{
        return isa->counts[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3][SF_SUM];
}
