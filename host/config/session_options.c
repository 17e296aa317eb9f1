#include "host/config/session_options.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "host/network/network.h"
#include "proto/option.h"

typedef enum OptionPart { PART_CONTAINER, PART_SESSION, PART_CALL } OptionPart;

#define NO_DEFAULT SIZE_MAX

typedef struct OptionEntry {
    Option option; /* of a SessionOptions */
    OptionPart part;
    size_t given;    /* offset in MsgOptions */
    size_t standard; /* offset in Options; or NO_DEFAULT: then it is the option's `value` */
} OptionEntry;

#define ENTRY(name_, kind_, part_, value_, least_, most_, standard_)                                         \
    {.option = {.name = #name_,                                                                              \
                .type = OPTION_##kind_,                                                                      \
                .offset = offsetof(SessionOptions, name_),                                                   \
                .least = least_,                                                                             \
                .most = most_,                                                                               \
                .value = value_},                                                                            \
     .part = PART_##part_,                                                                                   \
     .given = offsetof(MsgOptions, name_),                                                                   \
     .standard = standard_},

static const OptionEntry entries[] = {
#define SESSION_OPTION(name, kind, part, value, least, most, argument, help)                                 \
    ENTRY(name, kind, part, value, least, most, offsetof(Options, name))
#define SESSION_OPTION_ALONE(name, kind, part, value, least, most, argument, help)                           \
    ENTRY(name, kind, part, value, least, most, NO_DEFAULT)
#include "proto/session_options.def"
};

#define ENTRIES_END (entries + ARRAY_SIZE(entries))

/* Address of an option in a MsgOptions and in a SessionOptions, by its type. The bytes of a Size are its
 * first member: sizes are numbers like others here. */
#define GIVEN(type, of, e) ((const type *)((const char *)(of) + (e)->given))
#define OWN(type, of, e)   ((type *)((char *)(of) + (e)->option.offset))

_Static_assert(offsetof(Size, bytes) == 0, "a size does not begin with its bytes");

static int out_of_memory(Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "out of memory");
}

/* ---- taking what is said ---- */

static int take_text(char **ret, Text given, const char *standard)
{
    const Text text = given.data ? given : text_of(standard);

    if (text.data)
        *ret = text_dup(text);
    return text.data && !*ret ? -ENOMEM : 0;
}

static bool pair_valid(const msgpack_object_kv *pair)
{
    const msgpack_object *name = &pair->key, *value = &pair->val;

    return name->type == MSGPACK_OBJECT_STR && value->type == MSGPACK_OBJECT_STR && name->via.str.size > 0 &&
           !memchr(name->via.str.ptr, '\0', name->via.str.size) &&
           !memchr(name->via.str.ptr, '=', name->via.str.size) &&
           !memchr(value->via.str.ptr, '\0', value->via.str.size);
}

static int take_pairs(SessionOptions *ret, const OptionEntry *e, const msgpack_object_map *given,
                      Problem *problem)
{
    Writer w;
    uint32_t n = given ? given->size : 0;

    if (n > LIMIT_ENV)
        return problem_set(problem, ERR_TOO_LARGE, "%s may have at most %u variables", e->option.name,
                           LIMIT_ENV);
    writer_init(&w, OWN(Buf, ret, e));
    write_map(&w, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!pair_valid(&given->ptr[i]))
            return problem_set(problem, ERR_BAD_REQUEST,
                               "%s must map names to text; a name must not contain `=`", e->option.name);
        write_object(&w, &given->ptr[i].key);
        write_object(&w, &given->ptr[i].val);
    }
    return writer_finish(&w) < 0 ? out_of_memory(problem) : 0;
}

static int take_list(Buf *ret, const Value *given, Problem *problem)
{
    Writer w;

    writer_init(&w, ret);
    write_array(&w, value_count(given));
    for (uint32_t i = 0; i < value_count(given); i++)
        write_text_n(&w, value_text(given, i).data, value_text(given, i).size);
    return writer_finish(&w) < 0 ? out_of_memory(problem) : 0;
}

static int take_map(Buf *ret, const Value *given, Problem *problem)
{
    msgpack_object map = {.type = MSGPACK_OBJECT_MAP};
    Writer w;

    if (given->map)
        map.via.map = *given->map;
    writer_init(&w, ret);
    write_object(&w, &map);
    return writer_finish(&w) < 0 ? out_of_memory(problem) : 0;
}

/* Takes an option, one that was not given from `defaults`. Without those, or where they do not have it, a
 * number has no bound but its own, text is what the table says, and there is no directory. */
static int take_entry(SessionOptions *ret, const OptionEntry *e, const MsgOptions *given,
                      const Options *defaults, Problem *problem)
{
    const void *standard =
        defaults && e->standard != NO_DEFAULT ? (const char *)defaults + e->standard : NULL;
    const double most = e->option.most, *number = GIVEN(double, given, e);
    int r = 0;

    switch (e->option.type) {
    case OPTION_SECONDS:
    case OPTION_NUMBER:
        *OWN(double, ret, e) = !isnan(*number) ? *number : standard ? *(const double *)standard : most;
        return 0;
    case OPTION_COUNT:
    case OPTION_SIZE:
        *OWN(uint64_t, ret, e) =
            uint_or(*GIVEN(uint64_t, given, e), standard ? *(const uint64_t *)standard : (uint64_t)most);
        return 0;
    case OPTION_PAIRS:
        return take_pairs(ret, e, GIVEN(Value, given, e)->map, problem);
    case OPTION_LIST:
        return take_list(OWN(Buf, ret, e), GIVEN(Value, given, e), problem);
    case OPTION_BINDINGS:
        return take_map(OWN(Buf, ret, e), GIVEN(Value, given, e), problem);
    case OPTION_DIRECTORY:
        r = take_text(OWN(char *, ret, e), *GIVEN(Text, given, e), NULL);
        break;
    default:
        r = take_text(OWN(char *, ret, e), *GIVEN(Text, given, e),
                      standard ? *(char *const *)standard : e->option.value);
    }
    return r < 0 ? out_of_memory(problem) : 0;
}

/* ---- settling ---- */

static int settle(SessionOptions *ret, const OptionEntry *e, const MsgOptions *given, const Options *defaults,
                  Problem *problem)
{
    int r = take_entry(ret, e, given, defaults, problem);

    return r == 0 ? option_check(&e->option, ret, problem) : r;
}

/* Returns whether `name` is in the comma-separated list. */
static bool in_list(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        size_t item = strcspn(at, ",");
        if (item == n && strncmp(at, name, n) == 0)
            return true;
    }
    return false;
}

/* Checks the rules of a session. A session that has a network of its own is refused them: nothing would be
 * enforced. */
static int check_rules(const SessionOptions *options, const Value *allow, const Value *bindings,
                       Problem *problem)
{
    Network network _cleanup_(network_deinit) = {0};
    int r = network_read(&network, allow, bindings, problem);

    if (r < 0)
        return r;
    if (options->allow.size + options->bindings.size > LIMIT_NETWORK)
        return problem_set(problem, ERR_TOO_LARGE, "allow and bindings may have %u bytes at most",
                           LIMIT_NETWORK);
    if (network_is_empty(&network) || strcmp(options->network, "none") == 0)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST,
                       "allow and bindings are for sessions with the network 'none', not '%s'",
                       options->network);
}

static int check_network(const SessionOptions *options, const Options *defaults, Problem *problem)
{
    if (strcmp(options->network, "none") == 0 || in_list(defaults->allow_network, options->network))
        return 0;
    return problem_set(problem, ERR_DENIED,
                       "this controller does not allow the network '%s'; see its option allow_network",
                       options->network);
}

static int check_image(const SessionOptions *options, Problem *problem)
{
    static const char characters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:";
    const char *image = options->image;

    if (image[strspn(image, characters)] == '\0' && *image != '/' && !strstr(image, ".."))
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "image: '%s' is not a valid image name", image);
}

/* The supervisor is told of it in one message. */
static int check_env(const MsgOptions *given, Problem *problem)
{
    size_t size = 0;

    for (uint32_t i = 0; given->env.map && i < given->env.map->size; i++)
        size += given->env.map->ptr[i].key.via.str.size + given->env.map->ptr[i].val.via.str.size;
    if (size <= LIMIT_ENV_BYTES)
        return 0;
    return problem_set(problem, ERR_TOO_LARGE, "the variables of env have at most %u bytes together",
                       LIMIT_ENV_BYTES);
}

int session_options_settle(SessionOptions *ret, const MsgOptions *given, const Options *defaults,
                           Problem *problem)
{
    for (const OptionEntry *e = entries; e < ENTRIES_END; e++) {
        if (settle(ret, e, given, defaults, problem) < 0)
            return -EINVAL;
    }
    if (check_env(given, problem) < 0 || check_network(ret, defaults, problem) < 0 ||
        check_rules(ret, &given->allow, &given->bindings, problem) < 0)
        return -EINVAL;
    return check_image(ret, problem);
}

/* ---- keeping and saying ---- */

int session_options_read(SessionOptions *ret, const msgpack_object_map *map, Problem *problem)
{
    MsgOptions said;

    if (body_decode(&said, MsgOptions, map, problem) < 0)
        return -EPROTO;
    for (const OptionEntry *e = entries; e < ENTRIES_END; e++) {
        if (take_entry(ret, e, &said, NULL, problem) < 0)
            return -EPROTO;
    }
    return ret->memory ? 0 : problem_set(problem, ERR_BAD_REQUEST, "the options lack `memory`");
}

static bool is_text(const OptionEntry *e)
{
    return e->option.type == OPTION_CHOICE || e->option.type == OPTION_TEXT ||
           e->option.type == OPTION_DIRECTORY;
}

static bool is_encoded(const OptionEntry *e)
{
    return e->option.type == OPTION_PAIRS || e->option.type == OPTION_LIST ||
           e->option.type == OPTION_BINDINGS;
}

/* Something in it may be secret. */
static void forget(Buf *buf)
{
    if (buf->data)
        explicit_bzero(buf->data, buf->capacity);
    buf_deinit(buf);
}

void session_options_deinit(SessionOptions *options)
{
    for (const OptionEntry *e = entries; e < ENTRIES_END; e++) {
        if (is_text(e))
            free(*OWN(char *, options, e));
        else if (is_encoded(e))
            forget(OWN(Buf, options, e));
    }
    *options = (SessionOptions){0};
}

#define SAY_SECONDS(value)   (value)
#define SAY_NUMBER(value)    (value)
#define SAY_COUNT(value)     (value)
#define SAY_SIZE(value)      ((Size){.bytes = (value)})
#define SAY_CHOICE(value)    text_of(value)
#define SAY_TEXT(value)      text_of(value)
#define SAY_DIRECTORY(value) text_of(value)
#define SAY_PAIRS(value)     value_encoded(&(value))
#define SAY_LIST(value)      value_encoded(&(value))
#define SAY_BINDINGS(value)  value_encoded(&(value))

MsgOptions session_options_to_wire(const SessionOptions *options)
{
    return (MsgOptions){
#define SESSION_OPTION(name, kind, ...) .name = SAY_##kind(options->name),
#include "proto/session_options.def"
    };
}

static bool unpack(msgpack_unpacked *ret, const Buf *own, msgpack_object_type type)
{
    msgpack_unpacked_init(ret);
    return msgpack_unpack_next(ret, (const char *)buf_head(own), own->size, NULL) == MSGPACK_UNPACK_SUCCESS &&
           ret->data.type == type;
}

static void write_public(Writer *w, const void *source)
{
    msgpack_unpacked bindings;

    if (unpack(&bindings, source, MSGPACK_OBJECT_MAP))
        network_write_public(w, &bindings.data.via.map);
    else
        write_map(w, 0);
    msgpack_unpacked_destroy(&bindings);
}

MsgOptions session_options_to_wire_public(const SessionOptions *options)
{
    MsgOptions told = session_options_to_wire(options);

    told.bindings = (Value){.write = write_public, .source = &options->bindings};
    return told;
}

/* ---- the network ---- */

bool session_options_reach(const SessionOptions *options)
{
    /* An empty map or array is encoded in one byte. */
    return options->allow.size > 1 || options->bindings.size > 1;
}

bool session_options_relay(const SessionOptions *options)
{
    Network network _cleanup_(network_deinit) = {0};
    Problem problem = PROBLEM_NULL;
    msgpack_unpacked bindings;
    Value bound = {0};

    if (unpack(&bindings, &options->bindings, MSGPACK_OBJECT_MAP))
        bound.map = &bindings.data.via.map;
    network_read(&network, &(Value){0}, &bound, &problem);
    msgpack_unpacked_destroy(&bindings);
    return network_relay(&network) != NULL;
}

static int change_network(SessionOptions *changed, const SessionOptions *options, const MsgSetNetwork *given,
                          Problem *problem)
{
    msgpack_unpacked allow, bindings;
    Value allowed = given->allow, bound = given->bindings;
    int r = 0;

    if (unpack(&allow, &options->allow, MSGPACK_OBJECT_ARRAY) && !allowed.array)
        allowed.array = &allow.data.via.array;
    if (unpack(&bindings, &options->bindings, MSGPACK_OBJECT_MAP) && !bound.map)
        bound.map = &bindings.data.via.map;
    r = take_list(&changed->allow, &allowed, problem);
    if (r == 0)
        r = take_map(&changed->bindings, &bound, problem);
    if (r == 0)
        r = check_rules(changed, &allowed, &bound, problem);
    msgpack_unpacked_destroy(&allow);
    msgpack_unpacked_destroy(&bindings);
    return r;
}

int session_options_change_network(SessionOptions *ret, const SessionOptions *options,
                                   const MsgSetNetwork *given, Problem *problem)
{
    *ret = (SessionOptions){.network = options->network};
    return change_network(ret, options, given, problem);
}

void session_options_take_network(SessionOptions *options, SessionOptions *changed, bool take)
{
    Buf before[] = {options->allow, options->bindings};

    if (take) {
        options->allow = changed->allow;
        options->bindings = changed->bindings;
        changed->allow = before[0];
        changed->bindings = before[1];
    }
    forget(&changed->allow);
    forget(&changed->bindings);
}

/* ---- comparing ---- */

/* Users write lists and pairs in any order. */
static bool list_differs(const Buf *own, const msgpack_object_array *given)
{
    msgpack_unpacked current;
    bool differs = !unpack(&current, own, MSGPACK_OBJECT_ARRAY) || current.data.via.array.size != given->size;

    for (uint32_t i = 0; !differs && i < given->size; i++) {
        bool found = false;
        for (uint32_t k = 0; !found && k < given->size; k++)
            found = msgpack_object_equal(current.data.via.array.ptr[k], given->ptr[i]);
        differs = !found;
    }
    msgpack_unpacked_destroy(&current);
    return differs;
}

static bool pairs_differ(const Buf *own, const msgpack_object_map *given)
{
    msgpack_unpacked current;
    bool differs = !unpack(&current, own, MSGPACK_OBJECT_MAP) || current.data.via.map.size != given->size;

    for (uint32_t i = 0; !differs && i < given->size; i++) {
        const msgpack_object_kv *pairs = current.data.via.map.ptr;
        bool found = false;
        for (uint32_t k = 0; !found && k < given->size; k++)
            found = msgpack_object_equal(pairs[k].key, given->ptr[i].key) &&
                    msgpack_object_equal(pairs[k].val, given->ptr[i].val);
        differs = !found;
    }
    msgpack_unpacked_destroy(&current);
    return differs;
}

/* false: or it was not given. */
static bool differs(const SessionOptions *options, const OptionEntry *e, const MsgOptions *given)
{
    const Text *text = GIVEN(Text, given, e);
    const double *number = GIVEN(double, given, e);
    uint64_t whole;

    switch (e->option.type) {
    case OPTION_SECONDS:
    case OPTION_NUMBER:
        return !isnan(*number) && *number != *OWN(double, options, e);
    case OPTION_COUNT:
    case OPTION_SIZE:
        whole = *OWN(uint64_t, options, e);
        return uint_or(*GIVEN(uint64_t, given, e), whole) != whole;
    case OPTION_LIST:
        return GIVEN(Value, given, e)->array &&
               list_differs(OWN(Buf, options, e), GIVEN(Value, given, e)->array);
    case OPTION_PAIRS:
    case OPTION_BINDINGS:
        return GIVEN(Value, given, e)->map && pairs_differ(OWN(Buf, options, e), GIVEN(Value, given, e)->map);
    case OPTION_DIRECTORY:
        return text->data && (!*OWN(char *, options, e) || !text_equal(*text, *OWN(char *, options, e)));
    default:
        return text->data && !text_equal(*text, *OWN(char *, options, e));
    }
}

/* Whoever asks for none by its name, and for no rules, means that there are none. */
static bool means_no_rules(const SessionOptions *options, const OptionEntry *e, const MsgOptions *given)
{
    return e->option.offset == offsetof(SessionOptions, network) && given->network.data &&
           !given->allow.array && options->allow.size > 1;
}

size_t session_options_differ(const SessionOptions *options, const MsgOptions *given,
                              const char *ret[static SESSION_OPTION_COUNT])
{
    size_t n = 0;

    for (const OptionEntry *e = entries; e < ENTRIES_END; e++) {
        if (differs(options, e, given) || means_no_rules(options, e, given))
            ret[n++] = e->option.name;
    }
    return n;
}

/* ---- containers ---- */

int session_options_copy_container(SessionOptions *ret, const SessionOptions *from)
{
    const MsgOptions said = session_options_to_wire(from);
    MsgOptions least;
    Problem problem = PROBLEM_NULL;

    body_clear(&least, MsgOptions);
    least.ttl = 0;
    least.checkpoint = text_of("off");
    *ret = (SessionOptions){0};
    for (const OptionEntry *e = entries; e < ENTRIES_END; e++) {
        if (take_entry(ret, e, e->part == PART_SESSION ? &least : &said, NULL, &problem) < 0) {
            session_options_deinit(ret);
            return -ENOMEM;
        }
    }
    return 0;
}

bool session_options_same_container(const SessionOptions *a, const SessionOptions *b)
{
    const MsgOptions said = session_options_to_wire(b);

    for (const OptionEntry *e = entries; e < ENTRIES_END; e++) {
        if (e->part == PART_CONTAINER && differs(a, e, &said))
            return false;
    }
    return true;
}
