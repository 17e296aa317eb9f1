# A short tour of the command, for `sh -eu`.
test "$(limpet run -c '6 * 7')" = 42
limpet run -s a -c 'x = 41'
test "$(limpet run -s a -c 'print(x + 1)')" = 42
limpet checkpoint --name before a
limpet run -s a -c 'x = 0'
limpet rollback a before
test "$(limpet run -s a -c x)" = 41
limpet put /etc/hostname a:name
limpet get a:name /tmp/name
cmp /etc/hostname /tmp/name
limpet ls | grep -qw a
limpet close a
limpet shutdown
