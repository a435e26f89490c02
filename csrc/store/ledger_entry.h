/* ledger_entry.h: the head that stands before every record when the commit log is DLedger's (enableDLegerCommitLog).
 * DLedger: DLedgerEntry, DLedgerEntryCoder, MmapFileList (0.3.2 dledger/entry/, store/file/).
 *
 *   magic 4 │ size 4 │ index 8 │ term 8 │ position 8 │ channel 4 │ chain CRC 4 │ body CRC 4 │ body size 4 │ body: one record
 *   a blank, -1 │ bytes to the file's end, ends a file                  big-endian
 *
 * The record's own physical offset is position + RP_LEDGER_HEAD_SIZE: queues, index and pulls use that and need not know of heads.
 * Channel and both CRCs are 0, as DLedger leaves them: the record has its own CRC.
 *
 * Threads  pure functions.
 */
#ifndef RP_STORE_LEDGER_ENTRY_H
#define RP_STORE_LEDGER_ENTRY_H

#include <stdint.h>

#define RP_LEDGER_HEAD_SIZE 48
#define RP_LEDGER_BLANK_SIZE_MIN 8
#define RP_LEDGER_ENTRY_SIZE_MAX (11 << 20) /* its base64 fits into the frame of a push; followers could never receive a larger one */
#define RP_LEDGER_MAGIC 1u
#define RP_LEDGER_MAGIC_BLANK 0xFFFFFFFFu

/* A head, decoded. */
typedef struct rp_ledger_entry {
    int64_t index, term;
    int64_t position; /* log offset of the head */
    uint32_t size;    /* head and body */
    int32_t channel, chain_crc, body_crc;
} rp_ledger_entry;

enum rp_ledger_kind {
    RP_LEDGER_END = 0,   /* zeros: nothing is written here */
    RP_LEDGER_ENTRY = 1, /* a possible head */
    RP_LEDGER_BLANK = 2, /* entry->size bytes up to the file's end are empty */
    RP_LEDGER_NONE = 3   /* neither */
};

/* Decodes what lies at `data`, of which `size` bytes may be read. Returns an rp_ledger_kind. For RP_LEDGER_ENTRY the sizes agree with
 * each other and fit into `size`; the body itself may be incomplete. */
int rp_ledger_entry_decode(const uint8_t *data, uint64_t size, rp_ledger_entry *entry);
/* Writes the head. Its first eight bytes are written last, after everything stored before, so that a killed process leaves a whole entry
 * or none. */
void rp_ledger_entry_encode(const rp_ledger_entry *entry, uint8_t *target);
/* Writes the eight bytes of a blank. */
void rp_ledger_blank_encode(uint8_t *target, uint32_t size);

#endif
