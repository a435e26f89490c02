/* arrow_abi.h: the two structs of the Arrow C data interface, which hand a finished batch to pyarrow without a copy.
 *
 * Source   Apache Arrow, "The Arrow C data interface": names, order and types of the fields are the interface.
 * Lifetime whoever receives a struct calls its release exactly once; release sets itself to NULL.
 */
#ifndef RP_ARROW_ARROW_ABI_H
#define RP_ARROW_ARROW_ABI_H

#include <stdint.h>

#define RP_ARROW_FLAG_NULLABLE 2

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif
