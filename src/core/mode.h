/*
 * mode.h: the floating-point mode in which results have the promised bits: round to nearest,
 * denormal numbers kept, no traps. A caller may have set another mode. All code that computes runs
 * between sf_mode_enter and sf_mode_leave; the pool's threads set the mode once, when they start.
 * Afterwards the caller's mode and exception flags are as they were.
 */
#ifndef SF_MODE_H
#define SF_MODE_H

#include <stdint.h>

#if defined __x86_64__ || defined __aarch64__
typedef struct sf_mode {
        uint64_t control, other; /* x86: MXCSR, the x87 control word; ARM: FPCR, FPSR */
} sf_mode;
#else
#include <fenv.h>
typedef fenv_t sf_mode;
#endif

#if defined __x86_64__
/* MXCSR has six exception flags, and above them the control bits. In the default all exceptions are
 * masked, and no other bit is set. The x87 unit computes nothing here, but strtod uses its rounding
 * mode. */
#define SF_MODE_FLAGS 0x3fu
#define SF_MODE_DEFAULT 0x1f80u
#define SF_MODE_X87_DEFAULT 0x37fu

static inline sf_mode sf_mode_enter(void)
{
        const uint16_t usual = SF_MODE_X87_DEFAULT;
        const uint32_t old = __builtin_ia32_stmxcsr();
        uint16_t x87;
        __asm__ volatile("fnstcw %0" : "=m"(x87));
        if ((old & ~SF_MODE_FLAGS) != SF_MODE_DEFAULT)
                __builtin_ia32_ldmxcsr(SF_MODE_DEFAULT);
        if (x87 != usual)
                __asm__ volatile("fldcw %0" ::"m"(usual));
        __asm__ volatile("" ::: "memory"); /* keeps the computation after the change of mode */
        return (sf_mode){old, x87};
}

static inline void sf_mode_leave(sf_mode old)
{
        __asm__ volatile("" ::: "memory");
        if (__builtin_ia32_stmxcsr() != old.control)
                __builtin_ia32_ldmxcsr((uint32_t)old.control);
        if (old.other != SF_MODE_X87_DEFAULT) {
                const uint16_t x87 = (uint16_t)old.other;
                __asm__ volatile("fldcw %0" ::"m"(x87));
        }
}
#elif defined __aarch64__
static inline sf_mode sf_mode_enter(void)
{
        sf_mode old;
        __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr"
                         : "=r"(old.control), "=r"(old.other)::"memory");
        if (old.control)
                __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0) : "memory");
        return old;
}

static inline void sf_mode_leave(sf_mode old)
{
        uint64_t flags;
        __asm__ volatile("mrs %0, fpsr" : "=r"(flags)::"memory");
        if (old.control)
                __asm__ volatile("msr fpcr, %0" ::"r"(old.control) : "memory");
        if (flags != old.other)
                __asm__ volatile("msr fpsr, %0" ::"r"(old.other) : "memory");
}
#else
static inline sf_mode sf_mode_enter(void)
{
        sf_mode old;
        fegetenv(&old);
        fesetenv(FE_DFL_ENV);
        return old;
}

static inline void sf_mode_leave(sf_mode old)
{
        fesetenv(&old);
}
#endif

/* Sets the mode and never restores it: for the pool's threads. */
static inline void sf_mode_default(void)
{
        (void)sf_mode_enter();
}

#endif
