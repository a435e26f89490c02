/* send_retry.c: see send_retry.h. */
#include "send_retry.h"

#include "../store/message.h"
#include "../store/topic_prefix_inl.h"
#include "lane.h"

/* Returns the group whose retry topic it is; NULL: the group does not exist here. */
static const rp_group *find_group(const rp_send_request *request) {
    rp_slice topic = request->header.topic;
    if (!rp_is_retry_topic(topic) || topic.size == RP_RETRY_PREFIX_SIZE)
        return NULL;
    rp_slice name = {topic.data + RP_RETRY_PREFIX_SIZE, topic.size - RP_RETRY_PREFIX_SIZE};
    return rp_group_table_find(request->lane->broker->groups, name);
}

static int has_tries_left(const rp_send_request *request, const rp_group *group) {
    rp_tries_header tries;
    rp_header_fault fault;
    if (rp_tries_header_read(request->command, &tries, &fault) != RP_OK)
        return 0;
    int says_tries = tries.has_reconsume_times_max && request->command->version >= RP_VERSION_3_4_9;
    int32_t most = says_tries ? tries.reconsume_times_max : atomic_load_explicit(&group->retry_times_max, memory_order_relaxed);
    return request->header.reconsume_times <= most;
}

int rp_send_has_another_try(const rp_send_request *request) {
    const rp_live_settings *settings = &request->lane->broker->settings;
    if (request->found != RP_SEND_IS_NEW || request->header.batch || request->topic == NULL ||
        !(atomic_load_explicit(&request->topic->flags, memory_order_relaxed) & RP_TOPIC_RETRY_SEND))
        return 0;
    /* In that case all prepared messages are refused, even one that a consumer of 4.6.0 or older had received as such (send_path.c). */
    if (!atomic_load_explicit(&settings->transaction_enable, memory_order_relaxed) &&
        rp_message_property(request->header.properties, "TRAN_MSG").data != NULL)
        return 0;
    const rp_group *group = find_group(request);
    return group != NULL && atomic_load_explicit(&group->retry_queues, memory_order_relaxed) > 0 &&
           atomic_load_explicit(&group->is_unlocked, memory_order_relaxed) && has_tries_left(request, group);
}
