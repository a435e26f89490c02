/* ledger_entry.c: see ledger_entry.h. */
#include "ledger_entry.h"

#include <stdatomic.h>
#include <string.h>

#include "../base/bytes_inl.h"

#define AT_INDEX 8
#define AT_TERM 16
#define AT_POSITION 24
#define AT_CHANNEL 32
#define AT_CHAIN_CRC 36
#define AT_BODY_CRC 40
#define AT_BODY_SIZE 44

int rp_ledger_entry_decode(const uint8_t *data, uint64_t size, rp_ledger_entry *entry) {
    memset(entry, 0, sizeof *entry);
    if (size < RP_LEDGER_BLANK_SIZE_MIN) {
        return RP_LEDGER_NONE;
    }
    uint32_t magic = rp_get_u32(data);
    entry->size = rp_get_u32(data + 4);
    if (magic == 0 && entry->size == 0) {
        return RP_LEDGER_END;
    }
    if (magic == RP_LEDGER_MAGIC_BLANK) {
        return entry->size >= RP_LEDGER_BLANK_SIZE_MIN && entry->size <= size ? RP_LEDGER_BLANK : RP_LEDGER_NONE;
    }
    if (magic != RP_LEDGER_MAGIC || entry->size <= RP_LEDGER_HEAD_SIZE || entry->size > size || entry->size > INT32_MAX) {
        return RP_LEDGER_NONE;
    }
    entry->index = (int64_t)rp_get_u64(data + AT_INDEX);
    entry->term = (int64_t)rp_get_u64(data + AT_TERM);
    entry->position = (int64_t)rp_get_u64(data + AT_POSITION);
    entry->channel = (int32_t)rp_get_u32(data + AT_CHANNEL);
    entry->chain_crc = (int32_t)rp_get_u32(data + AT_CHAIN_CRC);
    entry->body_crc = (int32_t)rp_get_u32(data + AT_BODY_CRC);
    int is_one = rp_get_u32(data + AT_BODY_SIZE) == entry->size - RP_LEDGER_HEAD_SIZE && entry->index >= 0 && entry->term >= 0 &&
                 entry->position >= 0;
    return is_one ? RP_LEDGER_ENTRY : RP_LEDGER_NONE;
}

static void put_start(uint8_t *target, uint32_t magic, uint32_t size) {
    uint8_t start[8];
    uint64_t word;
    rp_put_u32(start, magic);
    rp_put_u32(start + 4, size);
    memcpy(&word, start, sizeof word);
    atomic_thread_fence(memory_order_release); /* after all other bytes of the entry, as a record's start (message_encode.c) */
    memcpy(target, &word, sizeof word);
}

void rp_ledger_entry_encode(const rp_ledger_entry *entry, uint8_t *target) {
    rp_put_u64(target + AT_INDEX, (uint64_t)entry->index);
    rp_put_u64(target + AT_TERM, (uint64_t)entry->term);
    rp_put_u64(target + AT_POSITION, (uint64_t)entry->position);
    rp_put_u32(target + AT_CHANNEL, (uint32_t)entry->channel);
    rp_put_u32(target + AT_CHAIN_CRC, (uint32_t)entry->chain_crc);
    rp_put_u32(target + AT_BODY_CRC, (uint32_t)entry->body_crc);
    rp_put_u32(target + AT_BODY_SIZE, entry->size - RP_LEDGER_HEAD_SIZE);
    put_start(target, RP_LEDGER_MAGIC, entry->size);
}

void rp_ledger_blank_encode(uint8_t *target, uint32_t size) { put_start(target, RP_LEDGER_MAGIC_BLANK, size); }
