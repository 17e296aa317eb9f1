// What the clients of E2B for JavaScript do with a sandbox. Prints a line for each thing that it has seen to be right.
const assert = require('node:assert/strict');
const { Sandbox: Core, Template, NotFoundError, CommandExitError } = require('e2b');
const { Sandbox } = require('@e2b/code-interpreter');

const tests = {
    async code(sandbox) {
        const seen = [];
        const said = await sandbox.runCode("print('out'); x = 40\nx + 2", { onStdout: (each) => seen.push(each.line) });
        assert.equal(said.text, '42');
        assert.equal(seen.join(''), 'out\n');
        assert.equal(said.logs.stdout.join(''), 'out\n');
        const failed = await sandbox.runCode('1 / 0');
        assert.equal(failed.error.name, 'ZeroDivisionError');
        assert.match(failed.error.traceback, /1 \/ 0/);
    },

    async contexts(sandbox) {
        const context = await sandbox.createCodeContext({ language: 'python' });
        assert.equal((await sandbox.runCode('x', { context })).error.name, 'NameError');
        assert.ok((await sandbox.listCodeContexts()).some((each) => each.id === context.id));
        await sandbox.restartCodeContext(context);
        await sandbox.removeCodeContext(context);
        const said = await sandbox.runCode('echo $((1 + 1))', { language: 'bash' });
        assert.equal(said.logs.stdout.join(''), '2\n');
    },

    async lost(sandbox) {
        const names = [];
        const said = await sandbox.runCode('import os; os._exit(1)', { onError: (error) => names.push(error.name) });
        assert.equal(names[0], 'Exited');
        assert.match(said.error.name, /^State(RolledBack|Lost)$/);
    },

    async commands(sandbox) {
        const result = await sandbox.commands.run('echo $COLOUR; echo err >&2', { envs: { COLOUR: 'red' } });
        assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['red\n', 'err\n', 0]);
        await assert.rejects(sandbox.commands.run('exit 3'), (error) => error instanceof CommandExitError && error.exitCode === 3);
        const cat = await sandbox.commands.run('cat', { background: true, stdin: true });
        await cat.sendStdin('hello');
        await sandbox.commands.closeStdin(cat.pid);
        assert.equal((await cat.wait()).stdout, 'hello');
        const sleep = await sandbox.commands.run('sleep 600', { background: true });
        assert.ok((await sandbox.commands.list()).some((each) => each.pid === sleep.pid));
        assert.equal(await sleep.kill(), true);
        await assert.rejects(sleep.wait(), (error) => error instanceof CommandExitError && error.exitCode === -1);
        assert.equal(await sandbox.commands.kill(sleep.pid), false);
    },

    async terminal(sandbox) {
        let seen = '';
        const pty = await sandbox.pty.create({ cols: 90, rows: 20, onData: (data) => (seen += Buffer.from(data)) });
        await sandbox.pty.sendInput(pty.pid, Buffer.from('stty size; exit\n'));
        assert.equal((await pty.wait()).exitCode, 0);
        assert.match(seen, /20 90/);
    },

    async files(sandbox) {
        const data = new Uint8Array(300000).fill(7);
        await sandbox.files.write('js/text.txt', 'grüß');
        await sandbox.files.write([{ path: 'js/a', data: 'a' }, { path: 'js/b c', data: data.buffer }]);
        assert.equal(await sandbox.files.read('js/text.txt'), 'grüß');
        assert.deepEqual(await sandbox.files.read('js/b c', { format: 'bytes' }), data);
        assert.deepEqual((await sandbox.files.list('js')).map((each) => each.name).sort(), ['a', 'b c', 'text.txt']);
        assert.equal((await sandbox.files.rename('js/a', 'js/d')).name, 'd');
        assert.equal(await sandbox.files.exists('js/a'), false);
        assert.equal(await sandbox.files.makeDir('js/d2'), true);
        assert.equal((await sandbox.files.getInfo('js/d2')).type, 'dir');
        await sandbox.files.remove('js/d2');
        await assert.rejects(sandbox.files.read('js/none'), NotFoundError);
        const url = await sandbox.downloadUrl('js/text.txt');
        assert.equal(await (await fetch(url)).text(), 'grüß');
        const form = new FormData();
        form.append('file', new Blob(['up']), 'x');
        assert.equal((await fetch(await sandbox.uploadUrl('js/up'), { method: 'POST', body: form })).status, 200);
        assert.equal(await sandbox.files.read('js/up'), 'up');
    },

    async watch(sandbox) {
        await sandbox.files.makeDir('watched');
        let tell;
        const told = new Promise((resolve) => (tell = resolve));
        const handle = await sandbox.files.watchDir('watched', (event) => event.name === 'new' && tell(event.type));
        await sandbox.files.write('watched/new', 'x');
        assert.match(await told, /create|write/);
        await handle.stop();
    },

    async limits(sandbox) {
        const [metrics] = await sandbox.getMetrics();
        assert.ok(metrics.memUsed > 0 && metrics.cpuCount >= 1 && metrics.diskTotal > 0);
        await assert.rejects(Sandbox.create({ network: { allowOut: ['10.0.0.1'] } }), /may not be reached/);
        await assert.rejects(sandbox.updateNetwork({ allowInternetAccess: true }), /no access to the whole internet/);
        assert.equal(await Template.exists('code-interpreter-v1'), true);
        assert.equal(await Template.exists('no-such-template'), false);
    },

    async life(sandbox) {
        await sandbox.runCode("y = 'here'");
        await sandbox.files.write('stays', 'on disk');
        const [fork] = await sandbox.fork();
        assert.equal((await fork.runCode('y')).text, 'here');
        await fork.kill();
        await sandbox.pause();
        assert.equal(await sandbox.isRunning(), false);
        const again = await Sandbox.connect(sandbox.sandboxId);
        const said = await again.runCode('y');
        assert.equal(said.text, 'here');
        assert.equal(said.error.name, 'StateRestored');
        assert.match(said.error.value, /context bash \(bash\)/);
        assert.equal((await again.runCode('y')).error, undefined);
        assert.equal((await Core.getInfo(sandbox.sandboxId)).state, 'running');
        const snapshot = await again.createSnapshot();
        const other = await Sandbox.create(snapshot.snapshotId);
        assert.equal((await other.runCode('y')).text, 'here');
        assert.equal(await other.files.read('stays'), 'on disk');
        await other.kill();
        await Sandbox.deleteSnapshot(snapshot.snapshotId);
    },
};

async function main() {
    const sandbox = await Sandbox.create();
    try {
        for (const [name, test] of Object.entries(tests)) {
            await test(sandbox);
            console.log(name);
        }
    } finally {
        await sandbox.kill();
    }
    assert.equal(await sandbox.isRunning(), false);
    console.log('ended');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
