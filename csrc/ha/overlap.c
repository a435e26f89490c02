/* overlap.c: see overlap.h. */
#include "overlap.h"

#include <stddef.h>

void rp_overlap_begin(rp_overlap *overlap, rp_commit_log *log) {
    int64_t end = rp_commit_log_max_offset(log), begin = end - RP_OVERLAP_BYTES_MAX, whole = rp_commit_log_whole_offset(log);
    rp_log_range last;
    *overlap = (rp_overlap){end, end};
    if (end == 0 || rp_commit_log_read(log, end - 1, 1, &last) != RP_OK)
        return; /* nothing is there: the log begins where it ends */
    if (whole < begin && end - whole <= RP_OVERLAP_RECORD_MAX)
        begin = whole;
    int64_t file_begin = end - 1 - last.file_offset;
    rp_log_range_release(last.pin);
    begin = begin < file_begin ? file_begin : begin;
    overlap->at = begin < 1 ? 1 : begin; /* a report of 0 would say that we are empty */
}

int64_t rp_overlap_take(rp_overlap *overlap, rp_commit_log *log, const uint8_t *bytes, uint32_t size, rp_error *error) {
    int64_t left = overlap->end - overlap->at;
    uint32_t taken = size < left ? size : (uint32_t)left, same = 0;
    rp_log_range ours;
    int status = rp_commit_log_read(log, overlap->at, taken, &ours);
    if (status != RP_OK)
        return rp_error_set(error, status, 0, NULL, overlap->at, "our own last bytes cannot be read");
    while (same < taken && bytes[same] == ours.address[same])
        same++;
    rp_log_range_release(ours.pin);
    overlap->at += same;
    if (same < taken)
        return rp_error_set(error, RP_E_RANGE, 0, NULL, overlap->at,
                            "its log differs from ours at offset %lld: one of the two lost or replaced messages; to follow this master "
                            "let the slave start with an empty store",
                            (long long)overlap->at);
    return taken;
}
