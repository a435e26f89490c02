/* compaction_replacement.c: see compaction_replacement.h. */
#include "compaction_replacement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compaction_files.h"

struct rp_compaction_replacement {
    rp_compaction_log *log;         /* fixed, like the rest except for the segments, which the row takes over */
    rp_compaction_bases old, fresh; /* bases of the files */
    uint32_t old_count, segment_count;
    int64_t end;
    rp_compaction_segment *segments[];
};

static int list_bases(rp_compaction_segment *const *segments, uint32_t count, rp_compaction_bases *list, rp_error *error) {
    int rc = RP_OK;
    for (uint32_t i = 0; i < count && rc == RP_OK; i++)
        rc = rp_compaction_bases_add(list, rp_compaction_segment_base(segments[i]), error);
    return rc;
}

/* Notes the files that are to be replaced. */
static int note_old(rp_compaction_replacement *replacement, rp_error *error) {
    rp_compaction_segment **sealed;
    uint32_t count;
    int64_t base;
    int rc = rp_compaction_log_sealed(replacement->log, &sealed, &count, &base, error);
    uint32_t old_count = replacement->old_count;
    rc = rc == RP_OK ? list_bases(sealed, old_count, &replacement->old, error) : rc;
    replacement->end = rc == RP_OK && old_count > 0 ? rp_compaction_segment_last_offset(sealed[old_count - 1]) + 1 : 0;
    for (uint32_t i = 0; i < count && sealed != NULL; i++)
        rp_compaction_segment_release(sealed[i]);
    free(sealed);
    return rc;
}

int rp_compaction_replacement_create(rp_compaction_log *log, uint32_t old_count, rp_compaction_segment *const *fresh, uint32_t fresh_count,
                                     rp_compaction_replacement **out, rp_error *error) {
    rp_compaction_replacement *replacement = calloc(1, sizeof *replacement + fresh_count * sizeof(rp_compaction_segment *));
    if (replacement == NULL)
        return rp_error_set(error, RP_E_NO_MEMORY, ENOMEM, NULL, -1, "no memory for the segments of a compaction");
    replacement->log = log;
    replacement->old_count = old_count;
    int rc = note_old(replacement, error);
    rc = rc == RP_OK ? list_bases(fresh, fresh_count, &replacement->fresh, error) : rc;
    if (rc != RP_OK) {
        rp_compaction_replacement_destroy(replacement);
        return rc;
    }
    if (fresh_count > 0)
        memcpy(replacement->segments, fresh, fresh_count * sizeof(rp_compaction_segment *));
    replacement->segment_count = fresh_count;
    *out = replacement;
    return RP_OK;
}

void rp_compaction_replacement_destroy(rp_compaction_replacement *replacement) {
    if (replacement == NULL)
        return;
    for (uint32_t i = 0; i < replacement->segment_count; i++)
        rp_compaction_segment_release(replacement->segments[i]);
    rp_compaction_bases_free(&replacement->old);
    rp_compaction_bases_free(&replacement->fresh);
    free(replacement);
}

int rp_compaction_replacement_finish(rp_compaction_replacement *replacement, rp_error *error) {
    rp_compaction_log *log = replacement->log;
    int rc = rp_compaction_files_finish(rp_compaction_log_place(log), &replacement->old, &replacement->fresh, error);
    rc =
        rc == RP_OK ? rp_compaction_log_replace(log, replacement->old_count, replacement->segments, replacement->segment_count, error) : rc;
    replacement->segment_count = rc == RP_OK ? 0 : replacement->segment_count; /* the row owns them now */
    return rc;
}

int rp_compaction_replacement_begin(rp_compaction_replacement *replacement, rp_error *error) {
    int rc = rp_compaction_files_mark(rp_compaction_log_place(replacement->log), &replacement->old, &replacement->fresh, error);
    return rc == RP_OK ? rp_compaction_replacement_finish(replacement, error) : rc;
}

int rp_compaction_replacement_has_begun(const rp_compaction_replacement *replacement) {
    return rp_compaction_files_is_marked(rp_compaction_log_place(replacement->log));
}

int64_t rp_compaction_replacement_end(const rp_compaction_replacement *replacement) { return replacement->end; }
