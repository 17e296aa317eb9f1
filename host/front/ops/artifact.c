/* artifact: a piece of a file that a call has published, for a client that cannot open the controller's copy.
 */
#include <string.h>

#include "host/front/ops.h"

static void on_read(void *userdata, KeeperAnswer *answer)
{
    Request *request = userdata;

    if (answer->problem) {
        request_fail(request, answer->problem);
        return;
    }
    const JobGot *got = &answer->body->as_READ_PUBLISHED;
    const MsgGetReply reply = {.data = got->data, .size = got->size};

    request_answer(request, MsgGetReply, &reply);
}

static Text text_in(const msgpack_object *object)
{
    if (object->type == MSGPACK_OBJECT_STR)
        return (Text){object->via.str.ptr, object->via.str.size};
    return object->type == MSGPACK_OBJECT_BIN ? (Text){object->via.bin.ptr, object->via.bin.size} : (Text){0};
}

static Text find_in(const msgpack_object *artifacts, Text path)
{
    for (uint32_t i = 0; artifacts && artifacts->type == MSGPACK_OBJECT_MAP && i < artifacts->via.map.size;
         i++) {
        Text key = text_in(&artifacts->via.map.ptr[i].key);

        if (key.data && key.size == path.size && memcmp(key.data, path.data, key.size) == 0)
            return text_in(&artifacts->via.map.ptr[i].val);
    }
    return (Text){0};
}

/* Finds the path of the copy that the record names, below the state directory. Points into the record; no
 * data when it is not there. */
static Text find_copy(const Front *front, const msgpack_object *record, Text path)
{
    size_t above = strlen(front->paths->state_dir) + 1;
    Text copy = {0};

    if (record->type == MSGPACK_OBJECT_MAP)
        copy = find_in(map_find(&record->via.map, "artifacts"), path);
    if (copy.size <= above || memcmp(copy.data, front->paths->state_dir, above - 1) != 0)
        return (Text){0};
    return (Text){copy.data + above, copy.size - above};
}

static void read_copy(Front *front, Request *request, const MsgPublished *asked, Text copy)
{
    const JobReadPublished job = {
        .path = copy, .offset = asked->offset, .size = MIN(asked->size, LIMIT_FILE_CHUNK)};

    if (!copy.data)
        request_fail_text(request, ERR_NO_SUCH_FILE, "the call has published no file of this path");
    else if (keeper_ask(front->sandboxes->keeper, request->user, JOB_READ_PUBLISHED, &job, on_read, request) <
             0)
        request_fail_text(request, ERR_INTERNAL, "the file cannot be read now: out of memory");
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    char id[LIMIT_RUN_ID + 1] = "";
    msgpack_unpacked record;
    MsgPublished asked;
    const Call *call;

    if (!op_decode(request, &asked, MsgPublished, body))
        return;
    memcpy(id, asked.run_id.data, asked.run_id.size);
    call = call_find(front->calls, request->user, id);
    if (!call) {
        request_fail_text(request, ERR_NO_SUCH_RUN, "no call with run_id '%s' is running or stored", id);
        return;
    }
    msgpack_unpacked_init(&record);
    if (call->record.size > 0)
        msgpack_unpack_next(&record, (const char *)buf_head(&call->record), call->record.size, NULL);
    read_copy(front, request, &asked, find_copy(front, &record.data, asked.path));
    msgpack_unpacked_destroy(&record);
}

const Op op_artifact = {.kind = MSG_ARTIFACT, .handle = handle};
