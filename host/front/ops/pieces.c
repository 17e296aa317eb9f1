/* Pieces of files that clients fetch, up to a megabyte each. */
#include "host/front/ops.h"

/* Pieces of one connection. It is there while there are any. */
typedef struct PiecesOfPeer {
    List link; /* Front.pieces */
    Peer peer;
    unsigned under_way;
    bool resuming; /* requests that wait are being handled */
    List waiting;  /* Requests */
} PiecesOfPeer;

static PiecesOfPeer *find(const Front *front, Peer peer)
{
    PiecesOfPeer *of;

    list_foreach (of, (List *)&front->pieces, PiecesOfPeer, link)
        if (of->peer == peer)
            return of;
    return NULL;
}

static PiecesOfPeer *find_or_add(Front *front, Peer peer)
{
    PiecesOfPeer *of = find(front, peer);

    if (of)
        return of;
    of = calloc(1, sizeof(*of));
    if (!of)
        return NULL;
    of->peer = peer;
    list_init(&of->waiting);
    list_append(&front->pieces, &of->link);
    return of;
}

static void free_unused(PiecesOfPeer *of)
{
    if (of->under_way > 0 || of->resuming || !list_empty(&of->waiting))
        return;
    list_remove(&of->link);
    free(of);
}

/* Returns whether another may begin: pieces to come count as unread, and a client that is gone has SIZE_MAX
 * unread. */
static bool takes_one(const Front *front, const PiecesOfPeer *of)
{
    size_t coming = of->under_way * (size_t)LIMIT_FILE_CHUNK;

    return coming <= PIECES_UNREAD && listener_untaken(front->clients, of->peer) <= PIECES_UNREAD - coming;
}

/* The requests are handled in the order they came in: one that comes meanwhile waits behind them. */
static void resume(Front *front, PiecesOfPeer *of)
{
    List *link;

    if (of->resuming)
        return;
    of->resuming = true;
    while ((front->closing || takes_one(front, of)) && (link = list_first(&of->waiting))) {
        list_remove(link);
        front_resume(front, list_entry(link, Request, link), NULL);
    }
    of->resuming = false;
    free_unused(of);
}

Piece *piece_begin(Front *front, Request *request, const msgpack_object_map *body)
{
    PiecesOfPeer *of = find_or_add(front, request->peer);
    Piece *piece = of ? calloc(1, sizeof(*piece)) : NULL;

    if (!piece) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
    } else if (!takes_one(front, of) || (!of->resuming && !list_empty(&of->waiting))) {
        free(piece);
        piece = NULL;
        front_park(request, &of->waiting, body);
    } else {
        of->under_way++;
        *piece = (Piece){front, of, request};
    }
    if (of)
        free_unused(of);
    return piece;
}

void piece_end(Piece *piece)
{
    Front *front = piece->front;
    PiecesOfPeer *of = piece->of;

    free(piece);
    of->under_way--;
    resume(front, of);
}

void pieces_resume(Front *front, Peer peer)
{
    PiecesOfPeer *of = find(front, peer);

    if (of)
        resume(front, of);
}

void pieces_client_gone(Front *front, Peer peer)
{
    PiecesOfPeer *of = find(front, peer);
    List *link;

    if (!of)
        return;
    while ((link = list_first(&of->waiting)))
        request_forget(list_entry(link, Request, link));
    free_unused(of);
}

void pieces_shut_down(Front *front)
{
    PiecesOfPeer *of;

    list_foreach (of, &front->pieces, PiecesOfPeer, link)
        resume(front, of);
}
