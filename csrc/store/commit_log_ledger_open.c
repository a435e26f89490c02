/* commit_log_ledger_open.c: after recovery has found the end of a log of entries: finds its last entry and makes the index files say
 * where each entry lies. See commit_log_writer.h. */
#include <errno.h>
#include <stdatomic.h>

#include "commit_log_inl.h"
#include "commit_log_ledger.h"

/* Checks the index unit of the entry, and writes it again if it is missing or wrong. */
static int settle_unit(rp_commit_log *log, const rp_ledger_entry *entry, rp_error *error) {
    rp_ledger_index *index = log->setup.ledger_index;
    rp_ledger_entry unit;
    if (rp_ledger_index_read(index, entry->index, &unit) == RP_OK && unit.position == entry->position && unit.size == entry->size &&
        unit.term == entry->term) {
        return RP_OK;
    }
    if (log->setup.read_only) {
        return rp_error_set(error, RP_E_CORRUPT, 0, log->setup.directory, entry->position, "entry %lld is not in the index files",
                            (long long)entry->index);
    }
    int rc = rp_ledger_index_reserve(index, entry->index, error);
    return rc == RP_OK ? rp_ledger_index_put(index, entry, error) : rc;
}

/* Settles the entries of one file from *offset on; *offset is then behind them. *first receives index and begin of the first one. */
static int settle_file(rp_commit_log *log, int64_t *offset, rp_ledger_entry *first, rp_error *error) {
    int64_t file_end = *offset - *offset % log->file_size + log->file_size, end = log->position < file_end ? log->position : file_end;
    rp_log_range range;
    int rc = rp_commit_log_read(log, *offset, (uint32_t)(end - *offset), &range);
    if (rc != RP_OK) {
        return rp_error_set(error, rc, 0, log->setup.directory, *offset, "the log cannot be read: %s", rp_status_text(rc));
    }
    uint32_t done = 0;
    while (rc == RP_OK && done < range.size) {
        rp_ledger_entry entry;
        int kind = rp_ledger_entry_decode(range.address + done, (uint64_t)(file_end - *offset - done), &entry);
        if (kind == RP_LEDGER_BLANK) {
            done = range.size;
            break;
        }
        if (kind != RP_LEDGER_ENTRY || entry.position != *offset + done) {
            rc = rp_error_set(error, RP_E_CORRUPT, 0, log->setup.directory, *offset + done, "no entry where one should be");
            break;
        }
        rc = settle_unit(log, &entry, error);
        *first = first->size == 0 ? entry : *first;
        done += entry.size;
        atomic_store_explicit(&log->end_term, entry.term, memory_order_relaxed);
        atomic_store_explicit(&log->end_index, entry.index, memory_order_release);
    }
    rp_log_range_release(range.pin);
    *offset += done;
    return rc;
}

static int is_behind(rp_commit_log *log, const rp_ledger_entry *entry) {
    rp_ledger_entry before;
    return entry->index > 0 && rp_ledger_index_read(log->setup.ledger_index, entry->index - 1, &before) == RP_OK &&
           (before.position + before.size == entry->position || entry->position % log->file_size == 0);
}

/* Takes the end from the last index unit if the log agrees with it; then no entry has to be read. */
static int settle_end(rp_commit_log *log) {
    rp_ledger_index *index = log->setup.ledger_index;
    rp_ledger_entry unit, head;
    rp_log_range range;
    int64_t last = rp_ledger_index_last_below(index, log->position);
    if (last < 0 || rp_ledger_index_read(index, last, &unit) != RP_OK || unit.position + unit.size != log->position ||
        rp_commit_log_read(log, unit.position, unit.size, &range) != RP_OK) {
        return 0;
    }
    int is_it = rp_ledger_entry_decode(range.address, range.size, &head) == RP_LEDGER_ENTRY && head.index == last && head.term == unit.term;
    rp_log_range_release(range.pin);
    if (is_it) {
        atomic_store_explicit(&log->end_term, unit.term, memory_order_relaxed);
        atomic_store_explicit(&log->end_index, last, memory_order_release);
    }
    return is_it;
}

int rp_commit_log_settle_entries(rp_commit_log *log, int64_t from, rp_error *error) {
    int64_t begin = rp_commit_log_min_offset(log), offset = from < begin ? begin : from;
    rp_ledger_entry first = {.size = 0};
    int rc = RP_OK;
    bool is_known = log->position == begin || (offset >= log->position && settle_end(log));
    offset = offset >= log->position ? begin : offset;
    while (!is_known && rc == RP_OK && offset < log->position) {
        rc = settle_file(log, &offset, &first, error);
        if (rc == RP_OK && first.position > begin && first.size != 0 && !is_behind(log, &first)) {
            first = (rp_ledger_entry){.size = 0};
            offset = begin;
        }
    }
    log->next_index = rp_commit_log_end_index(log) + 1;
    rp_commit_log_find_begin(log);
    return rc;
}
