/* dledger_follow.c: handles a leader's pushes, on the reactor of the DLedger port: compared, cut, appended, and answered once what was
 * appended is on disk. DLedger: DLedgerEntryPusher.EntryHandler (0.3.2).
 *
 * `matched_index` is how far the log is known to be the leader's, in this term. Entries are accepted only behind it, and nothing up to
 * it is cut: a push that was late, or came twice, undoes nothing. A leader that is told INCONSISTENT_STATE compares again.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/clock_inl.h"
#include "../base/log_inl.h"
#include "dledger_log_inl.h"

#define SYNC_PATIENCE_MS 30000 /* the leader asks again long before */

static void tell_refused(rp_dledger_log *dledger, const rp_error *error) {
    if (rp_log_is_due(&dledger->refused_due_ns)) {
        rp_log_write(dledger->options.log, RP_LOG_WARNING, "dledger: a push of %s was refused: %s", dledger->leader_id, error->message);
    }
}

/* Maps the log's refusal to a code for the leader. */
static int32_t code_of(rp_dledger_log *dledger, int status, const rp_error *error) {
    if (status == RP_OK) {
        return RP_DLEDGER_SUCCESS;
    }
    tell_refused(dledger, error);
    return status == RP_E_RANGE || status == RP_E_CORRUPT || status == RP_E_NOT_FOUND ? RP_DLEDGER_INCONSISTENT_STATE
                                                                                      : RP_DLEDGER_DISK_ERROR;
}

/* Decodes the entry into entry_bytes, in the form it has in a log. Returns an rp_dledger_code. */
static int32_t decode(rp_dledger_log *dledger, const rp_push_entry *entry) {
    if (dledger->entry_capacity < entry->head.size) {
        uint8_t *larger = realloc(dledger->entry_bytes, entry->head.size);
        if (larger == NULL) {
            return RP_DLEDGER_DISK_ERROR; /* the leader asks again */
        }
        dledger->entry_bytes = larger;
        dledger->entry_capacity = entry->head.size;
    }
    return rp_push_entry_decode(entry, dledger->entry_bytes) == RP_OK ? RP_DLEDGER_SUCCESS : RP_DLEDGER_UNEXPECTED_ARGUMENT;
}

/* Is the entry with its index in this log the same? CRCs in heads, which not every member fills in, are not compared. INCONSISTENT_STATE
 * only if it is known to be another, or to be missing: otherwise the leader would have entries cut that merely cannot be read now, and a
 * majority may rest on them. */
static int32_t compare_entry(rp_dledger_log *dledger, const rp_push_entry *entry) {
    rp_log_range range;
    rp_ledger_entry local;
    int rc = rp_commit_log_read_entry(dledger->log, entry->head.index, &range, &local);
    if (rc != RP_OK) {
        return rp_status_is_passing(rc) ? RP_DLEDGER_DISK_ERROR : RP_DLEDGER_INCONSISTENT_STATE;
    }
    const rp_ledger_entry *head = &entry->head;
    bool same = local.term == head->term && local.position == head->position && local.size == head->size && local.channel == head->channel;
    int32_t code = same ? decode(dledger, entry) : RP_DLEDGER_INCONSISTENT_STATE;
    if (code == RP_DLEDGER_SUCCESS &&
        memcmp(dledger->entry_bytes + RP_LEDGER_HEAD_SIZE, range.address + RP_LEDGER_HEAD_SIZE, local.size - RP_LEDGER_HEAD_SIZE) != 0) {
        code = RP_DLEDGER_INCONSISTENT_STATE;
    }
    rp_log_range_release(range.pin);
    return code;
}

static void match(rp_dledger_log *dledger, int64_t index) {
    dledger->matched_index = index > dledger->matched_index ? index : dledger->matched_index;
}

/* Cuts everything behind last_index. */
static int32_t cut_behind(rp_dledger_log *dledger, int64_t last_index) {
    rp_ledger_ends ends;
    rp_error error;
    rp_commit_log_read_ends(dledger->log, &ends);
    if (ends.end_index <= last_index) {
        return RP_DLEDGER_SUCCESS;
    }
    rp_log_write(dledger->options.log, RP_LOG_NOTICE, "dledger: entries %lld to %lld are taken back: %s, which leads term %lld, has others",
                 (long long)last_index + 1, (long long)ends.end_index, dledger->leader_id, (long long)dledger->term);
    dledger->cuts++;
    return code_of(dledger, rp_commit_log_cut_entries(dledger->log, last_index, &error), &error);
}

/* Appends entries behind last_index, in place of what is there. */
static int32_t append_behind(rp_dledger_log *dledger, int64_t last_index, const rp_push_entry *entries, uint32_t count) {
    rp_error error;
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].head.term > dledger->term) { /* with it in the log, this member would win every election and lead in none */
            return RP_DLEDGER_INCONSISTENT_STATE;
        }
    }
    int32_t code = cut_behind(dledger, last_index);
    for (uint32_t i = 0; i < count && code == RP_DLEDGER_SUCCESS; i++) {
        code = decode(dledger, &entries[i]);
        if (code != RP_DLEDGER_SUCCESS) {
            break;
        }
        code = code_of(dledger, rp_commit_log_append_entry(dledger->log, dledger->entry_bytes, entries[i].head.size, &error), &error);
        if (code == RP_DLEDGER_SUCCESS) {
            match(dledger, entries[i].head.index);
            dledger->entries_appended++;
        }
    }
    return code;
}

static int32_t compare(rp_dledger_log *dledger, const rp_push_entry *entry) {
    int32_t code = compare_entry(dledger, entry);
    if (code == RP_DLEDGER_SUCCESS) {
        match(dledger, entry->head.index);
    }
    return code;
}

/* Reports that the leader's log begins behind the end of this one: what lies between exists nowhere. */
static void tell_gap(rp_dledger_log *dledger, int64_t begin_index, int64_t end_index) {
    dledger->gap_index = begin_index > end_index + 1 ? begin_index : -1;
    if (dledger->gap_index >= 0 && rp_log_is_due(&dledger->refused_due_ns)) {
        rp_log_write(
            dledger->options.log, RP_LOG_ERROR,
            "dledger: the log of %s, which leads, begins at entry %lld, this one ends at %lld: stop this broker, move its store away "
            "and start it again, so that it begins where the leader's log does",
            dledger->leader_id, (long long)begin_index, (long long)end_index);
    }
}

static int32_t truncate_behind(rp_dledger_log *dledger, const rp_push_entry *entry) {
    rp_ledger_ends ends;
    rp_commit_log_read_ends(dledger->log, &ends);
    bool begins_anew = ends.end_index < 0 || (entry->head.index == 0 && compare_entry(dledger, entry) == RP_DLEDGER_INCONSISTENT_STATE);
    if (begins_anew && dledger->matched_index < 0) { /* nothing here is the leader's */
        return append_behind(dledger, -1, entry, 1);
    }
    tell_gap(dledger, entry->head.index, ends.end_index);
    int32_t code = compare(dledger, entry);
    return code == RP_DLEDGER_SUCCESS ? cut_behind(dledger, dledger->matched_index) : code;
}

/* Appends; entries that are here already count as appended. */
static int32_t append(rp_dledger_log *dledger, const rp_push_entry *entries, uint32_t count) {
    rp_ledger_ends ends;
    int64_t first = entries[0].head.index;
    uint32_t known = 0;
    rp_commit_log_read_ends(dledger->log, &ends);
    if (first > dledger->matched_index + 1 || (dledger->matched_index < 0 && ends.end_index >= 0)) {
        return RP_DLEDGER_INCONSISTENT_STATE; /* a comparison must come first */
    }
    for (uint32_t i = 0; i < count; i++) {
        if (entries[i].head.index != first + i) {
            return RP_DLEDGER_INCONSISTENT_STATE;
        }
        if (entries[i].head.index <= dledger->matched_index) {
            int32_t code = compare_entry(dledger, &entries[i]);
            if (code != RP_DLEDGER_SUCCESS) {
                return code;
            }
            known = i + 1;
        }
    }
    return known == count ? RP_DLEDGER_SUCCESS : append_behind(dledger, dledger->matched_index, entries + known, count - known);
}

static void commit(rp_dledger_log *dledger, int64_t index) {
    rp_log_range range;
    rp_ledger_entry entry;
    index = index < dledger->matched_index ? index : dledger->matched_index;
    if (index > atomic_load_explicit(&dledger->committed_index, memory_order_relaxed) &&
        rp_commit_log_read_entry(dledger->log, index, &range, &entry) == RP_OK) {
        rp_log_range_release(range.pin);
        rp_dledger_commit(dledger, index, entry.position + entry.size);
    } else {
        rp_dledger_commit(dledger, 0, 0); /* dispatches messages that found no room in a queue before */
    }
}

static int32_t take(rp_dledger_log *dledger, const rp_push_request *request) {
    int32_t code = RP_DLEDGER_SUCCESS;
    if (request->type != RP_PUSH_COMMIT && request->entry_count == 0) {
        return RP_DLEDGER_UNEXPECTED_ARGUMENT;
    }
    if (request->type == RP_PUSH_COMPARE) {
        code = compare(dledger, request->entries);
    } else if (request->type == RP_PUSH_TRUNCATE) {
        code = truncate_behind(dledger, request->entries);
    } else if (request->type == RP_PUSH_APPEND) {
        code = append(dledger, request->entries, request->entry_count);
    }
    if (code == RP_DLEDGER_SUCCESS) {
        commit(dledger, request->commit_index);
    }
    return code;
}

static int is_text(rp_slice slice, const char *text) { return slice.size == strlen(text) && memcmp(slice.data, text, slice.size) == 0; }

/* Under lock: does the request come from the leader of this member's term? */
static int32_t check_leader(rp_dledger_log *dledger, const rp_push_request *request) {
    if (!is_text(request->remote_id, dledger->self_id)) {
        return RP_DLEDGER_UNKNOWN_MEMBER;
    }
    if (!is_text(request->group, dledger->group)) {
        return RP_DLEDGER_UNKNOWN_GROUP;
    }
    if (is_text(request->leader_id, dledger->self_id)) {
        return RP_DLEDGER_UNEXPECTED_MEMBER;
    }
    const rp_dledger_follower *leader = rp_dledger_member(dledger, request->leader_id);
    if (leader == NULL) {
        return RP_DLEDGER_UNKNOWN_MEMBER;
    }
    if (request->term < dledger->term) {
        return RP_DLEDGER_EXPIRED_TERM;
    }
    if (request->term > dledger->term || dledger->leader_id[0] == 0) {
        rp_dledger_raise_claim(dledger, request->term, leader->id);
        return RP_DLEDGER_TERM_NOT_READY;
    }
    return strcmp(leader->id, dledger->leader_id) == 0 ? RP_DLEDGER_SUCCESS : RP_DLEDGER_INCONSISTENT_LEADER;
}

/* *end_offset: what has to be on disk before the push is answered. */
static void handle(rp_dledger_log *dledger, const rp_push_request *request, rp_push_response *response, int64_t *end_offset) {
    rp_ledger_ends ends;
    pthread_mutex_lock(&dledger->lock);
    int32_t code = check_leader(dledger, request);
    if (code == RP_DLEDGER_SUCCESS) {
        dledger->heard_ms = rp_clock_monotonic_ns(dledger->options.clock) / RP_NS_PER_MS;
        code = take(dledger, request);
    }
    rp_commit_log_read_ends(dledger->log, &ends);
    dledger->pushes_taken += code == RP_DLEDGER_SUCCESS;
    dledger->pushes_refused += code != RP_DLEDGER_SUCCESS;
    *response = (rp_push_response){.code = code,
                                   .count = (int32_t)request->entry_count,
                                   .term = code == RP_DLEDGER_SUCCESS ? request->term : dledger->term,
                                   .index = request->entry_count != 0 ? request->entries[0].head.index : -1,
                                   .begin_index = ends.begin_index,
                                   .end_index = ends.end_index};
    /* Entries that were here before a comparison may not be on disk either, and the leader counts them from now on. */
    *end_offset = dledger->options.sync && code == RP_DLEDGER_SUCCESS && request->type != RP_PUSH_COMMIT ? ends.end_offset : 0;
    rp_dledger_leave(dledger);
}

int rp_dledger_on_request(void *context, rp_reactor *reactor, rp_connection *connection, const rp_command *command, int resubmitted) {
    rp_dledger_log *dledger = context;
    rp_push_request request;
    (void)resubmitted;
    if (command->code != RP_DLEDGER_PUSH || (command->flag & RP_COMMAND_ONEWAY) != 0) {
        return RP_PUNT;
    }
    rp_push_answer *answer = rp_arena_take(rp_reactor_arena(reactor), sizeof *answer);
    if (answer == NULL) {
        return RP_E_NO_MEMORY;
    }
    *answer = (rp_push_answer){.connection = connection, .opaque = command->opaque, .serialize_type = command->serialize_type};
    int rc = rp_push_request_read(command->body, rp_reactor_arena(reactor), &request);
    if (rc == RP_E_NO_MEMORY) {
        return rc;
    }
    if (rc == RP_OK) {
        handle(dledger, &request, &answer->response, &answer->end_offset);
    } else {
        answer->response =
            (rp_push_response){.code = RP_DLEDGER_UNEXPECTED_ARGUMENT, .term = -1, .index = -1, .begin_index = -1, .end_index = -1};
    }
    rp_push_answer **answers = &dledger->answers[rp_reactor_index(reactor)];
    answer->next = *answers;
    *answers = answer;
    return RP_HANDLED;
}

static int write_answer(rp_dledger_log *dledger, const rp_push_answer *answer) {
    uint8_t body[RP_PUSH_RESPONSE_MAX];
    rp_command command;
    rp_command_clear(&command, RP_DLEDGER_FRAME_CODE, answer->serialize_type);
    command.flag = RP_COMMAND_RESPONSE;
    command.opaque = answer->opaque;
    command.body = (rp_slice){body, rp_push_response_write(&answer->response, dledger->group, body, sizeof body)};
    return rp_connection_write(answer->connection, &command);
}

static rp_push_answer *in_order(rp_push_answer *newest) {
    rp_push_answer *first = NULL;
    while (newest != NULL) {
        rp_push_answer *next = newest->next;
        newest->next = first;
        first = newest;
        newest = next;
    }
    return first;
}

/* One sync for all pushes of the turn. */
static void sync_turn(rp_dledger_log *dledger, rp_push_answer *answers) {
    int64_t end = 0, max = rp_commit_log_max_offset(dledger->log);
    for (const rp_push_answer *each = answers; each != NULL; each = each->next) {
        end = each->end_offset > end ? each->end_offset : end;
    }
    end = end < max ? end : max; /* cut in the same turn */
    if (end == 0 || rp_message_store_wait_flushed(dledger->options.store, end, SYNC_PATIENCE_MS) == RP_OK) {
        return;
    }
    for (rp_push_answer *each = answers; each != NULL; each = each->next) {
        each->response.code = each->end_offset > rp_commit_log_flushed_offset(dledger->log) ? RP_DLEDGER_DISK_ERROR : each->response.code;
    }
}

void rp_dledger_on_turn_end(void *context, rp_reactor *reactor) {
    rp_dledger_log *dledger = context;
    rp_push_answer **newest = &dledger->answers[rp_reactor_index(reactor)], *answers = in_order(*newest);
    *newest = NULL;
    if (answers == NULL) {
        return;
    }
    sync_turn(dledger, answers);
    for (const rp_push_answer *each = answers; each != NULL; each = each->next) {
        if (write_answer(dledger, each) != RP_OK) {
            rp_log_write(dledger->options.log, RP_LOG_WARNING, "dledger: no memory to answer a push; it will be sent again");
        }
    }
}
