/* Which instruction sets this CPU has. */
#include "cpu/kernels.h"

#include <pthread.h>
#include <string.h>

/* The best one comes last. */
static const sf_cpu_isa *const isas[] = {
        &sf_isa_portable,
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
