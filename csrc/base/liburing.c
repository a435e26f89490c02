/* liburing.c: see liburing.h. */
#include "liburing.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define REMEDY "install pyuring, which bundles one: pip install --force-reinstall pyuring"

static const struct {
    const char *name;
    size_t field;
} CALLS[] = {
    {"io_uring_queue_init_params", offsetof(rp_liburing, queue_init_params)},
    {"io_uring_get_sqe", offsetof(rp_liburing, get_sqe)},
    {"io_uring_submit_and_wait", offsetof(rp_liburing, submit_and_wait)},
    {"__io_uring_get_cqe", offsetof(rp_liburing, get_cqe)},
    {"io_uring_queue_exit", offsetof(rp_liburing, queue_exit)},
};

int rp_liburing_load(const char *path, rp_liburing *library, rp_error *error) {
    *library = (rp_liburing){0};
    if (path == NULL) {
        return rp_error_set(error, RP_E_UNSUPPORTED, 0, NULL, -1, "no liburing is known; " REMEDY);
    }
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        const char *cause = dlerror(); /* its text begins with the path */
        return rp_error_set(error, RP_E_UNSUPPORTED, 0, path, -1, "liburing does not load (%s); " REMEDY, cause != NULL ? cause : path);
    }
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        void *call = dlsym(library->handle, CALLS[i].name);
        if (call == NULL) {
            rp_liburing_unload(library);
            return rp_error_set(error, RP_E_UNSUPPORTED, 0, path, -1, "%s is no liburing: it has no %s; " REMEDY, path, CALLS[i].name);
        }
        memcpy((char *)library + CALLS[i].field, &call, sizeof call);
    }
    return RP_OK;
}

void rp_liburing_unload(rp_liburing *library) {
    if (library->handle != NULL) {
        dlclose(library->handle);
    }
    *library = (rp_liburing){0};
}
