/* send_priority.c: see send_priority.h. */
#include "send_priority.h"

#include "lane.h"
#include "property_text.h"

static int drop(rp_send_request *request) {
    static const char *const dropped[] = {"_SYS_MSG_PRIORITY_", NULL};
    rp_slice sent = request->properties.text;
    uint8_t *start = rp_arena_take(rp_reactor_arena(request->lane->reactor), (size_t)sent.size + 1);
    if (start == NULL)
        return RP_E_NO_MEMORY;
    request->properties.text = (rp_slice){start, (uint32_t)(rp_copy_pairs_without(start, sent, dropped) - start)};
    return RP_OK;
}

int rp_send_rank(rp_send_request *request) {
    int32_t priority = request->properties.priority;
    if (priority == RP_PRIORITY_DROPPED)
        return drop(request);
    int32_t last = atomic_load_explicit(&request->topic->write_queues, memory_order_relaxed) - 1;
    if (last >= 0 && request->global_id < 0)
        request->queue_id = priority < last ? priority : last;
    return RP_OK;
}
