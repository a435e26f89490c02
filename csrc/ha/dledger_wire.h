/* dledger_wire.h: PUSH of DLedger and its answer: JSON bodies, those of entries in base64. Private to csrc/ha.
 * DLedger: PushEntryRequest, PushEntryResponse, DLedgerEntry, as fastjson writes them (0.3.2 dledger/protocol/, entry/).
 *
 * Threads  pure functions. What is read lives in the text or in the arena.
 * Bounds   RP_PUSH_ENTRIES_MAX entries; every byte of a stranger is checked here.
 */
#ifndef RP_HA_DLEDGER_WIRE_H
#define RP_HA_DLEDGER_WIRE_H

#include <stdint.h>

#include "../base/arena.h"
#include "../base/base64.h"
#include "../base/slice.h"
#include "../store/ledger_entry.h"

#define RP_DLEDGER_PUSH 51004 /* DLedgerRequestCode */
#define RP_DLEDGER_FRAME_CODE 200 /* of the command around every answer */
#define RP_PUSH_ENTRIES_MAX 10000

enum rp_dledger_code {
    RP_DLEDGER_SUCCESS = 200,
    RP_DLEDGER_UNKNOWN_GROUP = 400,
    RP_DLEDGER_UNKNOWN_MEMBER = 401,
    RP_DLEDGER_UNEXPECTED_MEMBER = 402,
    RP_DLEDGER_EXPIRED_TERM = 403,
    RP_DLEDGER_INCONSISTENT_STATE = 406,
    RP_DLEDGER_INCONSISTENT_LEADER = 409,
    RP_DLEDGER_UNEXPECTED_ARGUMENT = 411,
    RP_DLEDGER_DISK_ERROR = 414,
    RP_DLEDGER_TERM_NOT_READY = 416
};

enum rp_push_type { RP_PUSH_APPEND = 0, RP_PUSH_COMMIT = 1, RP_PUSH_COMPARE = 2, RP_PUSH_TRUNCATE = 3 };

typedef struct rp_push_entry {
    rp_ledger_entry head; /* with the size that its body gives it */
    rp_slice body;        /* in base64 */
} rp_push_entry;

typedef struct rp_push_request {
    rp_slice group, remote_id, local_id, leader_id;
    int64_t term, commit_index;
    int32_t type;
    uint32_t entry_count;
    const rp_push_entry *entries; /* one, or those of a batch */
} rp_push_request;

typedef struct rp_push_response {
    int32_t code, count;
    int64_t term, index, begin_index, end_index;
} rp_push_response;

/* RP_OK; RP_E_PROTOCOL, RP_E_TOO_LARGE (entries), RP_E_NO_MEMORY. */
int rp_push_request_read(rp_slice text, rp_arena *arena, rp_push_request *request);
/* Writes head and body, entry->head.size bytes. RP_OK, RP_E_PROTOCOL: the body is no base64. */
int rp_push_entry_decode(const rp_push_entry *entry, uint8_t *target);
/* Who sends it, to whom: ids and group without anything that JSON would escape. */
typedef struct rp_push_envelope {
    const char *group, *local_id, *remote_id;
    int64_t term, commit_index;
    int32_t type;
} rp_push_envelope;
#define RP_PUSH_ENVELOPE_MAX 1024
#define RP_PUSH_ENTRY_HEAD_MAX 320 /* an entry without its body */
#define RP_PUSH_ENTRY_MAX(size) (RP_PUSH_ENTRY_HEAD_MAX + RP_BASE64_SIZE(size))
/* Writes the text up to where entries follow, one entry, or what is behind them; each returns how much. A batch is one with is_batch 1. */
uint32_t rp_push_begin(const rp_push_envelope *envelope, int is_batch, uint32_t entry_count, uint8_t *target);
uint32_t rp_push_add(const rp_ledger_entry *entry, const uint8_t *body, int is_first, uint8_t *target);
uint32_t rp_push_end(int is_batch, uint8_t *target);

/* RP_OK, RP_E_PROTOCOL, RP_E_NO_MEMORY. */
int rp_push_response_read(rp_slice text, rp_arena *arena, rp_push_response *response);
#define RP_PUSH_RESPONSE_MAX 512
uint32_t rp_push_response_write(const rp_push_response *response, const char *group, uint8_t *target, uint32_t target_size);

/* A text that JSON holds as it is: printable ASCII without quotes and backslashes, below size_max bytes and not empty. */
int rp_dledger_is_plain(const char *text, uint32_t size_max);

#endif
