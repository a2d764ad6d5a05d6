/* The status code and the error message of the calling thread's latest failure. */
#include "core/core.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct {
        uint64_t serial; /* of the context that the message belongs to */
        sf_status status;
        char text[2048];
} last;

sf_status sf_fail(const sf_context *ctx, sf_status status, const char *format, ...)
{
        va_list args;
        va_start(args, format);
        vsnprintf(last.text, sizeof last.text, format, args);
        va_end(args);
        last.serial = ctx ? ctx->serial : 0;
        last.status = status;
        return status;
}

sf_status sf_last_status(void)
{
        return last.status;
}

const char *sf_last_error(const sf_context *ctx)
{
        return last.serial == (ctx ? ctx->serial : 0) ? last.text : "";
}

const char *sf_status_name(sf_status status)
{
        switch (status) {
        case SF_OK: return "SF_OK";
        case SF_INVALID_ARGUMENT: return "SF_INVALID_ARGUMENT";
        case SF_UNSUPPORTED: return "SF_UNSUPPORTED";
        case SF_OUT_OF_MEMORY: return "SF_OUT_OF_MEMORY";
        case SF_NO_DEVICE: return "SF_NO_DEVICE";
        case SF_DEVICE_ERROR: return "SF_DEVICE_ERROR";
        default: return "unknown status";
        }
}
