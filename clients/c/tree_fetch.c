#include "clients/c/tree_fetch.h"

#include "clients/c/sandbox_files.h"

static int ask(TreeFetch *fetch, const LimpetEntry *files, size_t n, Reply *reply, MsgFileFetchReply *said)
{
    _cleanup_(buf_deinit) Buf names = BUF_NULL;
    MsgFileAsk what = {.has_fetch = true, .fetch.path = text_of(fetch->top)};
    Writer w;
    int r;

    writer_init(&w, &names);
    write_array(&w, n);
    for (size_t i = 0; i < n; i++)
        body_write(&w, MsgFileName, &((MsgFileName){text_of(files[i].path + fetch->skipped)}));
    r = writer_finish(&w);
    if (r < 0)
        return r;
    what.fetch.files = value_encoded(&names);
    return files_ask(fetch->client, fetch->session, &what, false, reply, said, MsgFileFetchReply);
}

/* Asks for `n` files, and says in *ret how many of them have come. */
static int fetch_some(TreeFetch *fetch, const LimpetEntry *files, size_t n, size_t *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgFileFetchReply said;
    int r = ask(fetch, files, n, &reply, &said);

    if (r)
        return r;
    *ret = value_count(&said.files);
    if (*ret == 0 || *ret > n)
        return problem_set(&fetch->client->problem, ERR_PROTOCOL_MISMATCH,
                           "the sandbox answered for other files");
    for (uint32_t i = 0; r == 0 && i < *ret; i++) {
        MsgFileEntry row;

        value_row(&row, MsgFileEntry, &said.files, i);
        r = fetch->found(fetch, &files[i], &row);
    }
    return r;
}

/* As many as fit into one reply. */
static size_t batch(const LimpetEntry *files, size_t n)
{
    uint64_t bytes = 0;
    size_t end = 0;

    while (end < n && end < LIMIT_FILE_ENTRIES && (end == 0 || bytes + files[end].size <= LIMIT_FILE_CHUNK))
        bytes += files[end++].size;
    return end;
}

int tree_fetch(TreeFetch *fetch, const LimpetEntry *files, size_t n)
{
    int r = 0;

    for (size_t at = 0, come = 0; r == 0 && at < n; at += come)
        r = fetch_some(fetch, files + at, batch(files + at, n - at), &come);
    return r;
}
