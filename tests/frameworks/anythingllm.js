// Drives a skill as AnythingLLM does: its folder lies below storage/plugins/agent-skills, its handler becomes a function of
// the agent, whose own properties are what the handler's `this` has. Reads calls from standard input, one JSON a line, and
// prints what the handler tells meanwhile and gives in the end, one JSON a line too.
const fs = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");

const [skills, hubId, setup, userId] = process.argv.slice(2);
const functions = new Map();
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
const aibitat = {
  handlerProps: { invocation: { user_id: userId || null }, log: (text) => say({ told: `log: ${text}` }) },
  introspect: (text) => say({ told: text }),
  function: (made) => functions.set(made.name, made),
};

class Plugin {
  constructor(config) {
    this.config = config;
    this.name = config.hubId;
    this.handler = require(path.resolve(skills, config.hubId, config.entrypoint.file));
  }

  options() {
    const given = JSON.parse(setup);
    const chosen = {};
    for (const [name, definition] of Object.entries(this.config.setup_args)) chosen[name] = given[name] || definition.value || definition.default || null;
    return chosen;
  }

  setup(aibitat, runtimeArgs) {
    aibitat.function({
      super: aibitat,
      name: this.name,
      config: this.config,
      runtimeArgs,
      description: this.config.description,
      logger: aibitat.handlerProps.log,
      introspect: aibitat.introspect,
      examples: this.config.examples ?? [],
      parameters: { type: "object", properties: this.config.entrypoint.params ?? {}, additionalProperties: false },
      ...this.handler.runtime,
    });
  }
}

const config = JSON.parse(fs.readFileSync(path.resolve(skills, hubId, "plugin.json"), "utf8"));
if (!config.active) throw new Error("the skill is not active");
const plugin = new Plugin(config);
plugin.setup(aibitat, plugin.options());

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) say({ result: await functions.get(hubId).handler(JSON.parse(line)) });
})();
