/* The layout of DLPack's dlpack.h, as far as scanfold.h needs it, to test what happens when that is included first. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
        kDLCPU = 1,
        kDLCUDA = 2,
        kDLCUDAHost = 3
} DLDeviceType;

typedef struct {
        DLDeviceType device_type;
        int32_t device_id;
} DLDevice;

typedef struct {
        uint8_t code;
        uint8_t bits;
        uint16_t lanes;
} DLDataType;

typedef struct {
        void *data;
        DLDevice device;
        int32_t ndim;
        DLDataType dtype;
        int64_t *shape;
        int64_t *strides;
        uint64_t byte_offset;
} DLTensor;

#endif
