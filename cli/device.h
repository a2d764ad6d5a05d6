/*
 * device.h: memory of a CUDA device, for commands that compute there. The program is linked with no
 * part of CUDA: the driver is loaded when a device is opened. If it is not there, the library has
 * said so before, in the caller's sf_device_describe.
 */
#ifndef SCANFOLD_CLI_DEVICE_H
#define SCANFOLD_CLI_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <scanfold.h>

/* "cpu", "cuda" or "cuda:1". Nonzero: it is none of these. */
int device_by_name(const char *name, sf_device *device);

/* Makes a CUDA device the one that the functions below use. All of them return an exit status. */
int device_open(sf_context *ctx, sf_device device);
int device_allocate(size_t size, void **data);
void device_free(void *data);
int device_put(void *there, const void *here, size_t size);
/* Waits for the work before it. */
int device_get(void *here, const void *there, size_t size);

#endif
