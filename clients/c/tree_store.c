#include "clients/c/tree_store.h"

#include "clients/c/sandbox_files.h"

int tree_store_end(TreeStore *store)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    _cleanup_(buf_deinit) Buf list = BUF_NULL;
    MsgFileAsk what = {.has_store = true, .store.path = text_of(store->top)};
    MsgNothing nothing;
    Writer w;
    int r;

    if (store->n_rows == 0)
        return 0;
    writer_init(&w, &list);
    write_array(&w, store->n_rows);
    write_encoded(&w, &store->rows);
    r = writer_finish(&w);
    if (r < 0)
        return r;
    what.store.entries = value_encoded(&list);
    r = files_ask(store->client, store->session, &what, false, &reply, &nothing, MsgNothing);
    if (!r)
        tree_progress(store->progress, store->n_bytes);
    buf_clear(&store->rows);
    store->n_rows = 0;
    store->n_bytes = 0;
    return r;
}

int tree_store_add(TreeStore *store, const MsgFileEntry *row)
{
    int r = 0;

    if (store->n_rows == LIMIT_FILE_ENTRIES || store->n_bytes + row->data.size > LIMIT_FILE_CHUNK)
        r = tree_store_end(store);
    if (r == 0)
        r = body_encode(&store->rows, MsgFileEntry, row);
    store->n_rows++;
    store->n_bytes += row->data.size;
    return r;
}

void tree_store_deinit(TreeStore *store)
{
    buf_deinit(&store->rows);
}
