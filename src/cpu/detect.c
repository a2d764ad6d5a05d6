/* Which instructions this CPU runs, and how many CPUs there are. */
#include "cpu/cpu.h"
#include <sched.h>
sf_status sf_cpu_choose(const char *name, const sf_cpu_isa **isa) { (void)name; *isa = 0; return SF_OK; }
const char *sf_cpu_isa_name(const sf_cpu_isa *isa) { (void)isa; return "portable"; }
const char *sf_isa_name(int32_t i, int32_t *usable) { if (usable) *usable = 1; return i ? 0 : "portable"; }
int32_t sf_cpu_count(void) { cpu_set_t s; return sched_getaffinity(0, sizeof s, &s) ? 1 : CPU_COUNT(&s); }
