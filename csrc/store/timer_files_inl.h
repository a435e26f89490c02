/* timer_files_inl.h: the fields of the files of timed messages, for the files of this room. C only. */
#ifndef RP_STORE_TIMER_FILES_INL_H
#define RP_STORE_TIMER_FILES_INL_H

#include "timer_files.h"

struct rp_timer_files {
    const rp_file_ops *ops;
    rp_log *log;
    char *checkpoint_path;
    rp_timing_wheel *wheel;
    rp_timer_log *timer_log;
    rp_timer_checkpoint checkpoint; /* as on disk; while is_there is 0, there is none on disk */
    int32_t precision_ms;
    int32_t state; /* rp_timer_files_state */
    int32_t has_passed; /* the wheel may hold slots from before the read time: the first flush, which knows that time, empties them */
};

/* Notes in the checkpoint what the last run had delivered, because its messages are now entered again. While an earlier rebuild has not
 * caught up, its note is kept. */
void rp_timer_files_note_delivered(rp_timer_checkpoint *checkpoint);
/* Empties the slots before time_ms. */
void rp_timer_files_clear_before(rp_timer_files *files, int64_t time_ms);
/* As rp_timer_files_make_anew, with what was delivered already noted. */
int rp_timer_files_empty(rp_timer_files *files, rp_error *error);

#endif
