/* A device is initialised once for each process. Its kernels are found by hashing a struct, without
 * a lock. */
#include "cuda/cuda_device.h"

#include "cuda/cache.h"
#include "cuda/emit.h"
#include "cuda/jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST_CAPABILITY 70
#define FIRST_TABLE 64

static _Atomic(sf_cuda_device *) devices[SF_CUDA_MAX_DEVICES];
static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER; /* taken to initialise a device */

/* ------------------------------------------------------------------------------------------------
 * Initialisation
 * ---------------------------------------------------------------------------------------------- */
static sf_cuda_kernel_table *new_table(size_t slots)
{
        sf_cuda_kernel_table *table = calloc(1, sizeof *table + slots * sizeof *table->slots);
        if (table)
                table->mask = slots - 1;
        return table;
}

static cu_result read_chip(sf_cuda_device *d)
{
        int major = 0, minor = 0, l2 = 0, pools = 0, reads_host = 0;
        const struct {
                int attribute;
                int *value;
        } wanted[] = {{CU_DEVICE_MAJOR, &major},
                      {CU_DEVICE_MINOR, &minor},
                      {CU_DEVICE_MULTIPROCESSORS, &d->chip.multiprocessors},
                      {CU_DEVICE_THREADS_PER_MULTIPROCESSOR, &d->chip.threads_per_multiprocessor},
                      {CU_DEVICE_SHARED_PER_BLOCK, &d->chip.shared_per_block},
                      {CU_DEVICE_SHARED_PER_MULTIPROCESSOR, &d->chip.shared_per_multiprocessor},
                      {CU_DEVICE_L2, &l2},
                      {CU_DEVICE_HAS_POOLS, &pools},
                      {CU_DEVICE_READS_HOST_MEMORY, &reads_host}};
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
                cu_result code = d->driver->device_attribute(wanted[i].value, wanted[i].attribute, d->device);
                if (code != CU_OK)
                        return code;
        }
        d->chip.capability = major * 10 + minor;
        /* the size that all chips with clusters support */
        d->chip.cluster = d->chip.capability >= 90 ? 8 : 1;
        d->chip.widest_cluster = d->chip.capability >= 90 ? 16 : 1;
        d->chip.l2 = l2;
        d->pools = pools != 0;
        d->reads_host = reads_host != 0;
        /* From CUDA 12.3 on, such launches can be captured in graphs. */
        d->overlaps = d->chip.capability >= 90 && d->driver->version >= 12030;
        return CU_OK;
}

static sf_status bring_up(const sf_context *ctx, const sf_driver *driver, int32_t ordinal)
{
        sf_cuda_device *d = calloc(1, sizeof *d);
        sf_cuda_kernel_table *table = new_table(FIRST_TABLE);
        sf_status status = SF_OK;
        cu_result code;
        if (!d || !table) {
                status = sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory for the state of CUDA device %d", (int)ordinal);
                goto failed;
        }
        d->driver = driver;
        d->ordinal = ordinal;
        d->kernels = table;
        pthread_mutex_init(&d->kernels_lock, NULL);
        pthread_mutex_init(&d->scratch_lock, NULL);
        if ((code = driver->device_get(&d->device, ordinal)) != CU_OK || (code = read_chip(d)) != CU_OK)
                status = sf_driver_fail(ctx, driver, code, ordinal, "asking what it is");
        else if (d->chip.capability < OLDEST_CAPABILITY)
                status = sf_fail(ctx, SF_UNSUPPORTED, "CUDA device %d has compute capability %d.%d; it must be 7.0 "
                                                      "or newer", (int)ordinal,
                                 (int)d->chip.capability / 10, (int)d->chip.capability % 10);
        else if ((code = driver->primary_retain(&d->context, d->device)) != CU_OK ||
                 (driver->context_id &&
                  (code = driver->context_id(d->context, &d->context_id)) != CU_OK))
                status = sf_driver_fail(ctx, driver, code, ordinal, "opening the primary context");
        if (status != SF_OK)
                goto failed;
        atomic_store_explicit(&devices[ordinal], d, memory_order_release);
        return SF_OK;
failed:
        free(d);
        free(table);
        return status;
}

sf_status sf_cuda_device_get(const sf_context *ctx, int32_t ordinal, sf_cuda_device **device)
{
        const sf_driver *driver;
        if (ordinal >= 0 && ordinal < SF_CUDA_MAX_DEVICES && !sf_driver_forked() &&
            (*device = atomic_load_explicit(&devices[ordinal], memory_order_acquire)))
                return SF_OK;
        SF_TRY(sf_driver_get(ctx, &driver));
        if (ordinal < 0 || ordinal >= driver->devices || ordinal >= SF_CUDA_MAX_DEVICES)
                return sf_fail(ctx, SF_NO_DEVICE, "there is no CUDA device %d; this process sees %d, numbered from 0", (int)ordinal,
                               driver->devices);
        pthread_mutex_lock(&devices_lock);
        sf_status status = devices[ordinal] ? SF_OK : bring_up(ctx, driver, ordinal);
        *device = devices[ordinal]; /* another thread may forget it at any time */
        pthread_mutex_unlock(&devices_lock);
        return status;
}

void sf_cuda_device_forget(sf_cuda_device *d)
{
        /* The old device is kept but not used: another thread may be using it, and the driver has
         * already freed its own part. */
        static sf_cuda_device *forgotten;
        pthread_mutex_lock(&devices_lock);
        if (devices[d->ordinal] == d) {
                atomic_store(&devices[d->ordinal], NULL);
                d->forgotten = forgotten;
                forgotten = d;
        }
        pthread_mutex_unlock(&devices_lock);
}

sf_status sf_cuda_device_fail(const sf_context *ctx, sf_cuda_device *d, cu_result code,
                              const char *doing)
{
        if (code == CU_INVALID_CONTEXT || code == CU_CONTEXT_DESTROYED)
                sf_cuda_device_forget(d);
        return sf_driver_fail(ctx, d->driver, code, d->ordinal, doing);
}

/* ------------------------------------------------------------------------------------------------
 * The caller's context and the caller's captures
 * ---------------------------------------------------------------------------------------------- */

/* Is the device's context current? After a reset, the new context may have the old one's handle,
 * but not its number. */
static bool is_current(const sf_cuda_device *d)
{
        cu_context current = NULL;
        uint64_t id;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): sf_cuda_device_get has found or made it, or failed */
        if (d->driver->context_id)
                return d->driver->context_id(NULL, &id) == CU_OK && id == d->context_id;
        return d->driver->context_current(&current) == CU_OK && current == d->context;
}

/* With drivers before CUDA 12.0, only the first call that fails shows it. */
static bool was_reset(const sf_cuda_device *d)
{
        uint64_t id;
        return d->driver->context_id &&
               (d->driver->context_id(d->context, &id) != CU_OK || id != d->context_id);
}

sf_status sf_cuda_device_enter(const sf_context *ctx, int32_t ordinal, sf_cuda_device **device,
                               bool *entered)
{
        *entered = false;
        SF_TRY(sf_cuda_device_get(ctx, ordinal, device));
        if (is_current(*device))
                return SF_OK;
        if (was_reset(*device)) {
                sf_cuda_device_forget(*device);
                SF_TRY(sf_cuda_device_get(ctx, ordinal, device));
                if (is_current(*device))
                        return SF_OK;
        }
        cu_result code = (*device)->driver->context_push((*device)->context);
        if (code != CU_OK)
                return sf_cuda_device_fail(ctx, *device, code, "entering the primary context");
        *entered = true;
        return SF_OK;
}

void sf_cuda_device_leave(const sf_cuda_device *d, bool entered)
{
        cu_context ours;
        if (entered)
                d->driver->context_pop(&ours);
}

void sf_cuda_device_relax(const sf_cuda_device *d, int *mode)
{
        *mode = CU_CAPTURE_RELAXED;
        if (d->driver->capture_mode(mode) != CU_OK)
                *mode = CU_CAPTURE_RELAXED;
}

void sf_cuda_device_restore(const sf_cuda_device *d, int mode)
{
        d->driver->capture_mode(&mode);
}

/* ------------------------------------------------------------------------------------------------
 * Kernels
 * ---------------------------------------------------------------------------------------------- */
_Static_assert(sizeof(sf_cuda_spec) % 8 == 0 && offsetof(sf_cuda_spec, fused) % 8 == 0, "hashed eight bytes at a time");

static uint64_t hash_spec(const sf_cuda_spec *spec)
{
        uint64_t hash = 0x9e3779b97f4a7c15u, word;
        for (size_t i = 0, size = sf_cuda_spec_size(spec); i < size; i += 8) {
                memcpy(&word, (const char *)spec + i, 8);
                hash = (hash ^ word) * 0xff51afd7ed558ccdu;
                hash ^= hash >> 32;
        }
        return hash;
}

static sf_cuda_kernel_entry *find(const sf_cuda_kernel_table *table, const sf_cuda_spec *spec)
{
        for (size_t i = hash_spec(spec) & table->mask;; i = (i + 1) & table->mask) {
                sf_cuda_kernel_entry *entry = atomic_load_explicit(&table->slots[i], memory_order_acquire);
                if (!entry || sf_cuda_spec_same(&entry->spec, spec))
                        return entry;
        }
}

static void put(sf_cuda_kernel_table *table, sf_cuda_kernel_entry *entry)
{
        size_t i = hash_spec(&entry->spec) & table->mask;
        while (table->slots[i])
                i = (i + 1) & table->mask;
        table->count++;
        atomic_store_explicit(&table->slots[i], entry, memory_order_release);
}

/* Makes room for one more kernel in the table, and allocates its entry; NULL without memory. Call
 * it under kernels_lock. */
static sf_cuda_kernel_entry *make_room(sf_cuda_device *d)
{
        sf_cuda_kernel_table *table = d->kernels;
        sf_cuda_kernel_entry *entry = malloc(sizeof *entry);
        if (!entry || 2 * (table->count + 1) <= table->mask + 1)
                return entry;
        sf_cuda_kernel_table *bigger = new_table(2 * (table->mask + 1));
        if (!bigger) {
                free(entry);
                return NULL;
        }
        for (size_t i = 0; i <= table->mask; i++)
                if (table->slots[i])
                        put(bigger, table->slots[i]);
        bigger->replaced = table;
        atomic_store_explicit(&d->kernels, bigger, memory_order_release);
        return entry;
}

static bool image_refused(cu_result code)
{
        return code == CU_INVALID_IMAGE || code == CU_NO_BINARY || code == CU_INVALID_PTX || code == CU_UNSUPPORTED_PTX;
}

/* Loads the image as a module, and finds the kernel in it. `wide`: its clusters are larger than all
 * chips with clusters support. */
static cu_result load_image(const sf_cuda_device *d, const sf_binary *binary, const char *entry, bool wide,
                            cu_function *function, char *log, size_t size)
{
        int names[] = {CU_MODULE_ERROR_LOG, CU_MODULE_ERROR_LOG_SIZE};
        void *values[] = {log, (void *)(uintptr_t)size};
        cu_module module;
        int used = 0;
        cu_result code = d->driver->module_load(&module, binary->image, 2, names, values);
        if (code != CU_OK)
                return code;
        code = d->driver->module_function(function, module, entry);
        /* More than 48 KiB of shared memory must be requested. Request all that is left, because
         * launches of one kernel may differ. */
        if (code == CU_OK)
                code = d->driver->function_attribute(&used, CU_FUNCTION_STATIC_SHARED, *function);
        if (code == CU_OK && used < d->chip.shared_per_block)
                code = d->driver->function_set(*function, CU_FUNCTION_DYNAMIC_SHARED, d->chip.shared_per_block - used);
        /* If this is refused, so will be the launch, and a chain then runs one stage after another. */
        if (code == CU_OK && wide)
                (void)d->driver->function_set(*function, CU_FUNCTION_WIDE_CLUSTERS, 1);
        if (code != CU_OK)
                d->driver->module_unload(module);
        return code;
}

static sf_status make_kernel(const sf_context *ctx, sf_cuda_device *d, const sf_cuda_spec *spec, cu_function *function)
{
        const sf_compiler *compiler;
        const char *name = sf_cuda_kernel_name(spec->kernel);
        char arch[16], entry[SF_CUDA_ENTRY_SIZE], file[80], log[512] = "", doing[700];
        char *source = NULL;
        sf_cache_key key;
        sf_binary binary = {NULL, 0, false};
        sf_status status;
        cu_result code = CU_INVALID_IMAGE;

        SF_TRY(sf_jit_compiler(ctx, d->driver->version / 1000, &compiler));
        SF_TRY(sf_jit_arch(ctx, compiler, d->chip.capability, arch));
        SF_TRY(sf_cuda_source(ctx, spec, &source));
        sf_cuda_entry(spec, entry);
        sf_cache_key_make(&key, compiler, spec, source, arch);
        if (sf_cache_read(&key, &binary)) {
                code = load_image(d, &binary, entry, sf_cuda_is_wide(spec, &d->chip), function, log, sizeof log);
                free(binary.image);
                if (image_refused(code))
                        sf_cache_forget(&key);
        }
        status = SF_OK;
        if (image_refused(code)) { /* or there was no image */
                snprintf(file, sizeof file, "%s.cu", name);
                status = sf_jit_compile(ctx, compiler, file, source, arch, &binary, NULL);
                if (status == SF_OK) {
                        code = load_image(d, &binary, entry, sf_cuda_is_wide(spec, &d->chip), function, log, sizeof log);
                        if (code == CU_OK)
                                sf_cache_write(&key, &binary);
                        free(binary.image);
                }
        }
        free(source);
        if (status == SF_OK && code != CU_OK) {
                log[sizeof log - 1] = '\0';
                snprintf(doing, sizeof doing, "loading kernel %s (%s, NVRTC %d.%d, driver for CUDA %d.%d)%s%s", name, arch, (int)compiler->major,
                         (int)compiler->minor, d->driver->version / 1000, d->driver->version % 1000 / 10, *log ? ": " : "", log);
                return sf_cuda_device_fail(ctx, d, code, doing);
        }
        return status;
}

sf_status sf_cuda_device_kernel(const sf_context *ctx, sf_cuda_device *d, const sf_cuda_spec *spec, cu_function *function)
{
        sf_cuda_kernel_entry *entry = find(atomic_load_explicit(&d->kernels, memory_order_acquire), spec);
        sf_status status = SF_OK;
        int mode;
        if (entry) {
                *function = entry->function;
                return SF_OK;
        }
        pthread_mutex_lock(&d->kernels_lock);
        entry = find(d->kernels, spec); /* another thread may have made it meanwhile */
        if (entry) {
                *function = entry->function;
        } else if (!(entry = make_room(d))) { /* first: without room, a new kernel would be lost */
                status = sf_fail(ctx, SF_OUT_OF_MEMORY, "no memory to remember a kernel");
        } else {
                sf_cuda_device_relax(d, &mode);
                status = make_kernel(ctx, d, spec, &entry->function);
                sf_cuda_device_restore(d, mode);
                if (status == SF_OK) {
                        entry->spec = *spec;
                        *function = entry->function;
                        put(d->kernels, entry);
                } else {
                        free(entry);
                }
        }
        pthread_mutex_unlock(&d->kernels_lock);
        return status;
}
