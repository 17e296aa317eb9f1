/* HTTP as the egress process reads it: heads of requests, bodies in chunks, answers. */
#include <string.h>

#include "host/egress/http.h"
#include "tests/support/cmocka.h"

static Problem problem;
static unsigned status;

static ssize_t parse(HttpHead *ret, const char *text)
{
    status = 0;
    problem = PROBLEM_NULL;
    return head_parse(ret, (const uint8_t *)text, strlen(text), &status, &problem);
}

TEST(test_requests)
{
    static const char tunnel[] = "CONNECT Example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\nrest";
    static const char plain[] =
        "POST http://a.b:81/x?y#z HTTP/1.0\r\nContent-Length: 12\r\nProxy-Connection: keep-alive\r\n\r\n";
    HttpHead head;

    assert_int_equal(parse(&head, tunnel), sizeof(tunnel) - 1 - 4);
    assert_true(head.connect && head.keeps && head.chunks);
    assert_string_equal(head.host, "example.com");
    assert_int_equal(head.port, 443);

    assert_int_equal(parse(&head, plain), sizeof(plain) - 1);
    assert_false(head.connect || head.chunks);
    assert_true(head.keeps);
    assert_string_equal(head.host, "a.b");
    assert_int_equal(head.port, 81);
    assert_int_equal(head.path.size, 4);
    assert_int_equal(head.length, 12);
    assert_true(head_field_is_ours(&head, &head.fields[0]));

    assert_int_equal(
        parse(&head, "GET http://[::1]/ HTTP/1.1\r\nConnection: X-Mine, close\r\nX-Mine: 1\r\nA: b\r\n\r\n"),
        74);
    assert_string_equal(head.host, "::1");
    assert_int_equal(head.port, 80);
    assert_false(head.keeps);
    assert_true(head_field_is_ours(&head, &head.fields[1]));
    assert_false(head_field_is_ours(&head, &head.fields[2]));
}

/* Every beginning of a head is one of which more is to come. */
TEST(test_piece_by_piece)
{
    static const char text[] = "GET http://a/ HTTP/1.1\r\nA: b\r\n\r\n";
    HttpHead head;

    for (size_t n = 0; n < sizeof(text) - 1; n++)
        assert_int_equal(head_parse(&head, (const uint8_t *)text, n, &status, &problem), 0);
    assert_int_equal(parse(&head, text), sizeof(text) - 1);
}

TEST(test_what_is_refused)
{
    static const struct {
        unsigned status;
        const char *text;
    } cases[] = {
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET https://a/ HTTP/1.1\r\n\r\n"},
        {400, "GET http:/a/ HTTP/1.1\r\n\r\n"},
        {400, "GET http:// HTTP/1.1\r\n\r\n"},
        {400, "GET http://u:p@a/ HTTP/1.1\r\n\r\n"},
        {400, "GET http://a:0/ HTTP/1.1\r\n\r\n"},
        {400, "GET http://a\xff/ HTTP/1.1\r\n\r\n"},
        {400, "G(T http://a/ HTTP/1.1\r\n\r\n"},
        {505, "GET http://a/ HTTP/2.0\r\n\r\n"},
        {505, "GET http://a/\r\n\r\n"},
        {505, "GET http://a/ b HTTP/1.1\r\n\r\n"},
        {400, "CONNECT a HTTP/1.1\r\n\r\n"},
        {400, "CONNECT a:x HTTP/1.1\r\n\r\n"},
        {400, "CONNECT http://a:1/ HTTP/1.1\r\n\r\n"},
        {400, "CONNECT a:1 HTTP/1.1\r\nContent-Length: 1\r\n\r\n"},
        {400, "GET http://a/ HTTP/1.1\nA: b\n\n"},
        {400, "GET http://a/ HTTP/1.1\r\nA: b\rc\r\n\r\n"},
        {400, "GET http://a/ HTTP/1.1\r\nA : b\r\n\r\n"},
        {400, "GET http://a/ HTTP/1.1\r\n A: b\r\n\r\n"},
        {400, "GET http://a/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n"},
        {400, "GET http://a/ HTTP/1.1\r\nA\r\n\r\n"},
        {400, "GET http://a/ HTTP/1.1\r\n: b\r\n\r\n"},
        {400, "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"},
        {400, "POST http://a/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "POST http://a/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n"},
        {400, "POST http://a/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n"},
        {400, "POST http://a/ HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n"},
        {501, "POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
        {400, "\r\n\r\n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        HttpHead head;

        if (parse(&head, cases[i].text) >= 0)
            fail_msg("taken: %s", cases[i].text);
        if (status != cases[i].status)
            fail_msg("%u for: %s", status, cases[i].text);
        assert_true(*problem.text);
    }
}

TEST(test_what_is_too_large)
{
    uint8_t *large = malloc(HEAD_MAX);
    Buf many = BUF_NULL;
    HttpHead head;

    memset(large, 'a', HEAD_MAX);
    assert_true(head_parse(&head, large, HEAD_MAX, &status, &problem) < 0);
    assert_int_equal(status, 431);
    free(large);
    assert_int_equal(buf_append(&many, "GET http://a/ HTTP/1.1\r\n", 24), 0);
    for (unsigned i = 0; i <= HEAD_FIELDS_MAX; i++)
        assert_int_equal(buf_append(&many, "A: b\r\n", 6), 0);
    assert_int_equal(buf_append(&many, "\r\n", 2), 0);
    assert_true(head_parse(&head, buf_head(&many), many.size, &status, &problem) < 0);
    assert_int_equal(status, 431);
    buf_deinit(&many);
}

/* ---- chunks ---- */

static ssize_t take_all(const char *text, size_t piece, Buf *ret)
{
    Chunks chunks;
    size_t n = strlen(text), at = 0;

    chunks_begin(&chunks);
    while (at < n && !chunks_ended(&chunks)) {
        ssize_t taken = chunks_take(&chunks, (const uint8_t *)text + at, MIN(piece, n - at), ret);

        if (taken < 0)
            return taken;
        at += (size_t)taken;
    }
    return chunks_ended(&chunks) ? (ssize_t)at : 0;
}

TEST(test_chunks)
{
    static const char body[] = "5\r\nhello\r\n0a;x=y\r\n, world!!!\r\n0\r\nTrailer: 1\r\n\r\nGET";

    for (size_t piece = 1; piece < sizeof(body); piece++) {
        Buf taken = BUF_NULL;

        assert_int_equal(take_all(body, piece, &taken), sizeof(body) - 1 - 3);
        assert_int_equal(taken.size, 15);
        assert_memory_equal(buf_head(&taken), "hello, world!!!", 15);
        buf_deinit(&taken);
    }
}

TEST(test_malformed_chunks)
{
    static const char *const wrong[] = {
        "\r\n",    "x\r\n",   "5\nhello", "5\r\nhelloX\r\n",       "5\r\nhello\rX",
        "-1\r\n",  "0x5\r\n", "1 \r\n",   "fffffffffffffffff\r\n", "5\r\nhello\n",
        "0\r\n\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        Buf taken = BUF_NULL;

        if (take_all(wrong[i], 1, &taken) >= 0)
            fail_msg("taken: %s", wrong[i]);
        buf_deinit(&taken);
    }
}

/* ---- answers ---- */

typedef struct Told {
    HttpAnswer answer;
    Buf out;
} Told;

static void say(Told *told, const char *const *lines)
{
    for (; *lines; lines++)
        assert_int_equal(answer_line(&told->answer, text_of(*lines), &told->out), 0);
}

#define SAY(told, ...) say(told, (const char *const[]){__VA_ARGS__, NULL})

static void expect(Told *told, const char *text)
{
    assert_int_equal(buf_append(&told->out, "", 1), 0);
    assert_string_equal((const char *)buf_head(&told->out), text);
    buf_deinit(&told->out);
    answer_deinit(&told->answer);
}

TEST(test_answers)
{
    Told told = {.out = BUF_NULL};

    answer_init(&told.answer, false, true, true);
    SAY(&told, "HTTP/1.1 100 Continue\r\n", "\r\n", "HTTP/2 200 \r\n", "Content-Type: a\r\n",
        "Connection: X\r\n", "Transfer-Encoding: chunked\r\n", "\r\n");
    assert_int_equal(answer_body(&told.answer, "hello", 5, &told.out), 0);
    assert_int_equal(answer_end(&told.answer, &told.out), 0);
    expect(&told,
           "HTTP/1.1 200 \r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
           "5\r\nhello\r\n0\r\n\r\n");

    answer_init(&told.answer, false, true, true);
    SAY(&told, "HTTP/1.1 404 Not Found\r\n", "Content-Length: 2\r\n", "\r\n");
    assert_int_equal(answer_body(&told.answer, "no", 2, &told.out), 0);
    assert_int_equal(answer_end(&told.answer, &told.out), 0);
    expect(&told, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nno");

    answer_init(&told.answer, false, false, true); /* HTTP/1.0 */
    SAY(&told, "HTTP/1.1 200 OK\r\n", "\r\n");
    assert_int_equal(answer_body(&told.answer, "hello", 5, &told.out), 0);
    assert_int_equal(answer_end(&told.answer, &told.out), 0);
    assert_false(told.answer.keeps);
    expect(&told, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello");
}

TEST(test_where_it_leads)
{
    static const char *const places[][2] = {
        {"https://api.example.com/v1/files/7", "http://api.limpet/files/7"},
        {"https://api.example.com:443/v1/x", "http://api.limpet/x"},
        {"/v1/x", "http://api.limpet/x"},
        {"/login", "http://api.limpet/login"},
        {"https://api.example.com.evil/v1", "https://api.example.com.evil/v1"},
        {"http://api.example.com/v1", "http://api.example.com/v1"},
        {"//evil/v1", "//evil/v1"},
        {"relative", "relative"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        char line[128], text[256];
        Told told = {.out = BUF_NULL};

        answer_init(&told.answer, false, true, true);
        assert_int_equal(answer_set_origin(&told.answer, "https://api.example.com:443/", "/v1", "api"), 0);
        snprintf(line, sizeof(line), "Location: %s\r\n", places[i][0]);
        SAY(&told, "HTTP/1.1 302 Found\r\n", line, "Content-Length: 0\r\n", "\r\n");
        snprintf(text, sizeof(text),
                 "HTTP/1.1 302 Found\r\nLocation: %s\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n",
                 places[i][1]);
        expect(&told, text);
    }
}

TEST(test_malformed_answers)
{
    static const char *const wrong[] = {"hello\r\n",        "HTTP/1.1\r\n", "HTTP/1.1 20\r\n",
                                        "HTTP/1.1 abc\r\n", "\r\n",         "HTTP/1.1 200 a\x01\r\n"};

    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        Told told = {.out = BUF_NULL};

        answer_init(&told.answer, false, true, true);
        if (answer_line(&told.answer, text_of(wrong[i]), &told.out) >= 0 && told.answer.begun)
            fail_msg("taken: %s", wrong[i]);
        answer_deinit(&told.answer);
        buf_deinit(&told.out);
    }
}
