/* dledger_wire_fuzz.c: libFuzzer target for DLedger's pushes and their answers. Built by clang -fsanitize=fuzzer,address,undefined; not in
 * the library.
 *
 * Input   one byte that chooses, odd an answer, else a push; then its text.
 * Claims  nothing is read outside of the text (it is copied to a block of its exact size); entries keep their bounds, and decode into
 *         the size they state; what is read, written in its room and read again is the same.
 */
#include <stdlib.h>
#include <string.h>

#include "../base/error.h"
#include "../base/fuzz_inl.h"
#include "dledger_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_entry(const rp_push_entry *entry, rp_arena *arena) {
    rp_ledger_entry decoded;
    rp_push_request again;
    const rp_push_envelope envelope = {"G", "n0", "n1", 1, 0, RP_PUSH_APPEND};
    demand(entry->head.size > RP_LEDGER_HEAD_SIZE && entry->head.index >= 0 && entry->head.term >= 0 && entry->head.position >= 0);
    uint8_t *bytes = malloc(entry->head.size);
    uint32_t body_size = entry->head.size - RP_LEDGER_HEAD_SIZE, room = RP_PUSH_ENVELOPE_MAX + RP_PUSH_ENTRY_MAX(body_size) + 2;
    uint8_t *text = malloc(room);
    demand(bytes != NULL && text != NULL);
    if (rp_push_entry_decode(entry, bytes) == RP_OK) {
        demand(rp_ledger_entry_decode(bytes, entry->head.size, &decoded) == RP_LEDGER_ENTRY);
        demand(memcmp(&decoded, &entry->head, sizeof decoded) == 0);
        uint32_t end = rp_push_begin(&envelope, 0, 1, text);
        end += rp_push_add(&entry->head, bytes + RP_LEDGER_HEAD_SIZE, 1, text + end);
        end += rp_push_end(0, text + end);
        demand(end <= room && rp_push_request_read((rp_slice){text, end}, arena, &again) == RP_OK && again.entry_count == 1);
        demand(memcmp(&again.entries[0].head, &entry->head, sizeof entry->head) == 0);
    }
    free(text);
    free(bytes);
}

static void try_push(rp_slice text, rp_arena *arena) {
    rp_push_request request;
    if (rp_push_request_read(text, arena, &request) != RP_OK)
        return;
    demand(request.entry_count <= RP_PUSH_ENTRIES_MAX && request.type >= RP_PUSH_APPEND && request.type <= RP_PUSH_TRUNCATE);
    for (uint32_t i = 0; i < request.entry_count; i++)
        try_entry(&request.entries[i], arena);
}

static void try_answer(rp_slice text, rp_arena *arena) {
    rp_push_response response, again;
    uint8_t written[RP_PUSH_RESPONSE_MAX];
    if (rp_push_response_read(text, arena, &response) != RP_OK)
        return;
    uint32_t size = rp_push_response_write(&response, "G", written, sizeof written);
    demand(rp_push_response_read((rp_slice){written, size}, arena, &again) == RP_OK);
    demand(again.code == response.code && again.count == response.count && again.term == response.term && again.index == response.index);
    demand(again.begin_index == response.begin_index && again.end_index == response.end_index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    rp_arena *arena = rp_arena_create(0, 1 << 24);
    uint8_t *exact = malloc(size > 1 ? size - 1 : 1);
    demand(arena != NULL && exact != NULL);
    memcpy(exact, data + 1, size - 1);
    ((data[0] & 1) != 0 ? try_answer : try_push)((rp_slice){exact, (uint32_t)size - 1}, arena);
    free(exact);
    rp_arena_destroy(arena);
    return 0;
}
