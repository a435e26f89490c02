/* dledger_pusher.c: see dledger_pusher.h. */
#include "dledger_pusher.h"

#include <stdbool.h>

#define NOT_READY_MS 50 /* the follower has to learn of the term by other means */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

void rp_pusher_begin(rp_pusher *pusher, int64_t term) {
    uint32_t generation = pusher->generation + 1;
    *pusher =
        (rp_pusher){.term = term, .compare_at = -1, .matched_index = -1, .refused_at = -1, .told_commit = -1, .generation = generation};
}

static void compare_again(rp_pusher *pusher, int64_t quiet_until_ms) {
    pusher->compare_at = -1;
    pusher->is_appending = pusher->is_asked = pusher->truncate_at_begin = 0;
    pusher->flying = 0;
    pusher->flying_bytes = 0;
    pusher->generation++;
    pusher->quiet_until_ms = quiet_until_ms;
}

void rp_pusher_lost(rp_pusher *pusher, const rp_pusher_view *view) { compare_again(pusher, view->now_ms + view->retry_ms); }

/* A follower may be told only of entries that it has. */
static int64_t commit_to_tell(const rp_pusher_view *view, int64_t index) { return least(view->committed_index, index); }

static int is_commit_due(const rp_pusher *pusher, const rp_pusher_view *view) {
    int64_t commit = commit_to_tell(view, pusher->matched_index);
    return pusher->flying == 0 && (commit > pusher->told_commit || view->now_ms - pusher->told_ms >= (int64_t)view->commit_interval_ms);
}

/* Asks the follower something, until it is known up to where its log agrees with this one. */
static void ask(const rp_pusher *pusher, const rp_pusher_view *view, rp_push *push) {
    push->type = RP_PUSH_COMPARE;
    push->index = view->end_index;
    if (pusher->truncate_at_begin) {
        push->type = RP_PUSH_TRUNCATE;
        push->index = view->begin_index;
    } else if (pusher->compare_at >= view->begin_index && pusher->compare_at <= view->end_index) {
        bool has_agreed = pusher->matched_index >= 0 && pusher->compare_at == pusher->matched_index;
        push->type = has_agreed ? RP_PUSH_TRUNCATE : RP_PUSH_COMPARE;
        push->index = pusher->compare_at;
    }
    push->commit_index = commit_to_tell(view, push->type == RP_PUSH_COMPARE ? pusher->matched_index : push->index);
}

int rp_pusher_next(const rp_pusher *pusher, const rp_pusher_view *view, rp_push *push) {
    *push = (rp_push){.index = -1, .last_index = -1, .generation = pusher->generation};
    if (pusher->term < 0 || view->now_ms < pusher->quiet_until_ms || pusher->is_asked || view->end_index < 0) {
        return 0;
    }
    if (!pusher->is_appending) {
        ask(pusher, view, push);
        return 1;
    }
    if (pusher->next_index < view->begin_index) { /* retention was faster */
        return 0;
    }
    if (pusher->next_index <= view->end_index) {
        push->type = RP_PUSH_APPEND;
        push->index = pusher->next_index;
        push->commit_index = commit_to_tell(view, push->index);
        return pusher->flying < view->window && pusher->flying_bytes < view->window_bytes;
    }
    push->type = RP_PUSH_COMMIT;
    push->commit_index = commit_to_tell(view, pusher->matched_index);
    return is_commit_due(pusher, view);
}

void rp_pusher_sent(rp_pusher *pusher, const rp_push *push, const rp_pusher_view *view) {
    if (push->type == RP_PUSH_APPEND) {
        pusher->next_index = push->last_index + 1;
        pusher->flying += (uint32_t)(push->last_index - push->index + 1);
        pusher->flying_bytes += push->bytes;
    } else if (push->type != RP_PUSH_COMMIT) {
        pusher->is_asked = 1;
    }
    pusher->told_commit = most(pusher->told_commit, push->commit_index);
    pusher->told_ms = view->now_ms;
}

static void begin_appending(rp_pusher *pusher, int64_t index) {
    pusher->is_appending = 1;
    pusher->truncate_at_begin = 0;
    pusher->next_index = index + 1;
}

/* Chooses where to compare next, by DLedger's order of cases. */
static void step_back(rp_pusher *pusher, int64_t index, const rp_push_response *response, const rp_pusher_view *view) {
    if (response->end_index < view->begin_index || response->begin_index > view->end_index || index < response->begin_index) {
        pusher->truncate_at_begin = 1;
    } else {
        pusher->compare_at = index > response->end_index ? response->end_index : index - 1;
        pusher->truncate_at_begin = pusher->compare_at < view->begin_index;
    }
}

static void asked_answered(rp_pusher *pusher, const rp_push *push, const rp_push_response *response, const rp_pusher_view *view) {
    pusher->is_asked = 0;
    bool is_told = response->code == RP_DLEDGER_SUCCESS || response->code == RP_DLEDGER_INCONSISTENT_STATE;
    /* It has lost what it had: by a power cut, or because its store was moved away. */
    if (is_told && response->end_index < pusher->matched_index) {
        pusher->matched_index = -1;
    }
    if (response->code == RP_DLEDGER_SUCCESS) {
        pusher->matched_index = most(pusher->matched_index, push->index);
        if (push->type == RP_PUSH_TRUNCATE || response->end_index == push->index) {
            begin_appending(pusher, push->index);
        } else {
            pusher->compare_at = push->index; /* what it has behind that is removed */
        }
    } else if (response->code == RP_DLEDGER_INCONSISTENT_STATE && push->type == RP_PUSH_COMPARE) {
        step_back(pusher, push->index, response, view);
    } else {
        compare_again(pusher, view->now_ms + (response->code == RP_DLEDGER_TERM_NOT_READY ? NOT_READY_MS : view->retry_ms));
    }
}

/* Compares again at once, but not endlessly: a follower that agrees about an entry and accepts none behind it has other files, or no
 * room. */
static void append_refused(rp_pusher *pusher, const rp_push_response *response, const rp_pusher_view *view) {
    bool has_taken = pusher->matched_index > pusher->refused_at;
    pusher->refused_at = pusher->matched_index;
    compare_again(pusher, response->code == RP_DLEDGER_INCONSISTENT_STATE && has_taken ? 0 : view->now_ms + view->retry_ms);
}

void rp_pusher_answered(rp_pusher *pusher, const rp_push *push, const rp_push_response *response, const rp_pusher_view *view) {
    int is_current = push->generation == pusher->generation;
    if (push->type == RP_PUSH_APPEND) {
        if (is_current) {
            uint32_t entries = (uint32_t)(push->last_index - push->index + 1);
            pusher->flying -= entries < pusher->flying ? entries : pusher->flying;
            pusher->flying_bytes -= push->bytes < pusher->flying_bytes ? push->bytes : pusher->flying_bytes;
        }
        if (response->code == RP_DLEDGER_SUCCESS) {
            pusher->matched_index = most(pusher->matched_index, push->last_index);
        } else if (is_current) {
            append_refused(pusher, response, view);
        }
    } else if (push->type != RP_PUSH_COMMIT && is_current) {
        asked_answered(pusher, push, response, view);
    }
}

int64_t rp_pusher_due_ms(const rp_pusher *pusher, const rp_pusher_view *view) {
    if (pusher->term < 0) {
        return INT64_MAX;
    }
    if (pusher->is_appending) {
        return pusher->flying == 0 ? pusher->told_ms + view->commit_interval_ms : INT64_MAX;
    }
    /* Also if the pause is over by now: rp_pusher_next may have been asked just before its end, and would not be asked again. */
    return pusher->is_asked || view->end_index < 0 ? INT64_MAX : pusher->quiet_until_ms;
}
