#include <string.h>

#include "host/front/ops.h"
#include "host/journal/history.h"

#define REPLY_BYTES (1u << 20)

typedef struct Page {
    Buf entries; /* encoded */
    uint32_t count;
} Page;

static void write_page(Writer *w, const void *source)
{
    const Page *page = source;

    write_array(w, page->count);
    if (page->count > 0)
        write_encoded(w, &page->entries);
}

static void page_deinit(Page *page)
{
    buf_deinit(&page->entries);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Page page _cleanup_(page_deinit) = {0};
    MsgExportReply reply = {.history = {.write = write_page, .source = &page}};
    Session *session;
    MsgExport asked;

    if (!op_decode(request, &asked, MsgExport, body))
        return;
    session = op_session(front, request, asked.session, asked.instance);
    if (!session)
        return;
    if (session->branch != 0) {
        request_fail_text(request, ERR_BAD_REQUEST, "'%s' is a branch; export its session", session->name);
        return;
    }
    reply.next = uint_or(asked.next, 0);
    if (history_read(session->sandbox, &reply.next, REPLY_BYTES, &page.entries, &page.count) < 0) {
        request_fail_text(request, ERR_BAD_REQUEST, "next: no entry of the history begins there");
        return;
    }
    if (page.count == 0)
        reply.next = NO_UINT;
    request_reply_with(request, SCHEMA(MsgExportReply), &reply);
}

const Op op_export = {.kind = MSG_EXPORT, .lets_sleep = true, .handle = handle};
