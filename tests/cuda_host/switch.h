/*
 * switch.h: stacks, and how the executor goes from one to another.
 */
#ifndef SF_HOST_SWITCH_H
#define SF_HOST_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define STACK ((size_t)256 << 10) /* lazily backed; unoptimised, sanitized kernels have large frames */

#if defined(__x86_64__)
/* Saves what the calling convention keeps, swaps stacks, restores. */
void exec_switch(void **from, void *to);
__asm__(".text\n.globl exec_switch\n.type exec_switch,@function\nexec_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size exec_switch,.-exec_switch\n");
typedef void *context;

static inline void context_prepare(context *at, char *stack, size_t size, void (*entry)(void))
{
        void **top = (void **)(stack + size);
        *--top = NULL; /* so that the entry is aligned as after a call */
        *--top = (void *)(uintptr_t)entry;
        for (int i = 0; i < 6; i++)
                *--top = NULL;
        *at = top;
}
#define SWITCH(from, to) exec_switch(&(from), (to))
#else
#include <ucontext.h>
typedef ucontext_t context;

static inline void context_prepare(context *at, char *stack, size_t size, void (*entry)(void))
{
        getcontext(at);
        at->uc_stack.ss_sp = stack;
        at->uc_stack.ss_size = size;
        at->uc_link = NULL;
        makecontext(at, entry, 0);
}
#define SWITCH(from, to) swapcontext(&(from), &(to))
#endif

/* Stacks are kept from launch to launch: mapping thousands of them each time would take longer than the kernels. */
static struct {
        char *base;
        size_t count;
} stacks;

static char *stack_number(size_t i, size_t count)
{
        if (stacks.count < count) {
                if (stacks.base)
                        munmap(stacks.base, stacks.count * STACK);
                stacks.base = mmap(NULL, count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
                if (stacks.base == MAP_FAILED)
                        abort();
                stacks.count = count;
        }
        return stacks.base + i * STACK;
}

/* Every access of a kernel calls these, as compiled for races: sanitizers would take longer than the kernels. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

UNCHECKED static bool stack_has(const void *p)
{
        return (uintptr_t)p - (uintptr_t)stacks.base < stacks.count * STACK;
}

#endif
