// Runs cells of Java one after the other in a JShell; limpet_languages/live.py says how it is asked.

import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.UnresolvedReferenceException;

class Cells {
    private static final List<String> IMPORTS = List.of(
        "java.io", "java.math", "java.net", "java.nio.file", "java.util", "java.util.concurrent", "java.util.function",
        "java.util.regex", "java.util.stream");
    private static final Pattern ASKED = Pattern.compile("\\{\"code\": \"(.*)\", \"number\": \\d+\\}");
    private static final Pattern ESCAPED = Pattern.compile("\\\\(?:u([0-9a-f]{4})|(.))");

    private final JShell shell = JShell.builder().executionEngine("local").build();
    private boolean running;

    /** Why a cell ends early: the error as it is told. */
    private static class Failed extends Exception {
        final String name;
        final String trace;

        Failed(String name, String message, String trace) {
            super(message);
            this.name = name;
            this.trace = trace;
        }
    }

    Cells() {
        IMPORTS.forEach(name -> shell.eval("import " + name + ".*;"));
    }

    /** One line of JSON: the answer to a cell. */
    String run(String code) {
        begin(true);
        try {
            String value = evaluate(code);
            return "{\"result\": " + (value == null ? "null" : quoted(value)) + ", \"data\": null}";
        } catch (Failed failed) {
            return "{\"error\": [" + quoted(failed.name) + ", " + quoted(failed.getMessage()) + ", " + quoted(failed.trace) + "]}";
        } finally {
            begin(false);
        }
    }

    private synchronized void begin(boolean now) {
        running = now;
    }

    synchronized void interrupt() {
        if (running) {
            shell.stop();
        }
    }

    /** The text of the last expression's value, or null where it has none. */
    private String evaluate(String code) throws Failed {
        String value = null;
        for (String rest = code; !rest.isBlank(); ) {
            SourceCodeAnalysis.CompletionInfo next = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            String source = next.source() == null ? rest : next.source();
            rest = next.source() == null ? "" : next.remaining();
            value = null;
            for (SnippetEvent event : shell.eval(source)) {
                if (event.causeSnippet() == null) {
                    check(event, source);
                    boolean isValue = event.snippet().kind() == Snippet.Kind.EXPRESSION
                        || event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
                    value = isValue && event.value() != null && !event.value().isEmpty() ? event.value() : null;
                }
            }
        }
        return value;
    }

    private void check(SnippetEvent event, String source) throws Failed {
        if (event.status() == Snippet.Status.REJECTED) {
            String said = shell.diagnostics(event.snippet())
                .map(found -> "error: " + found.getMessage(Locale.ROOT) + "\n  " + line(source, (int) found.getPosition()) + "\n")
                .collect(Collectors.joining());
            throw new Failed("CompileError", said.lines().findFirst().orElse("the cell does not compile"), said);
        }
        if (event.exception() instanceof UnresolvedReferenceException missing) {
            String names = shell.unresolvedDependencies(missing.getSnippet()).collect(Collectors.joining(", "));
            throw new Failed("CompileError", missing.getSnippet().name() + " needs what is not there: " + names, "");
        }
        if (event.exception() instanceof EvalException raised) {
            String name = raised.getExceptionClassName();
            String message = raised.getMessage() == null ? "" : raised.getMessage();
            StringBuilder trace = new StringBuilder(name + (message.isEmpty() ? "" : ": " + message) + "\n");
            for (StackTraceElement frame : raised.getStackTrace()) {
                trace.append("        at ").append(frame).append("\n");
            }
            throw new Failed(name.substring(name.lastIndexOf('.') + 1), message, trace.toString());
        }
    }

    private static String line(String source, int position) {
        int at = Math.max(0, Math.min(position, source.length()));
        int end = source.indexOf('\n', at);
        return source.substring(source.lastIndexOf('\n', at - 1) + 1, end < 0 ? source.length() : end).strip();
    }

    private static String unquoted(String text) {
        return ESCAPED.matcher(text).replaceAll(found -> Matcher.quoteReplacement(
            found.group(1) != null ? Character.toString((char) Integer.parseInt(found.group(1), 16)) : ("\\" + found.group(2)).translateEscapes()));
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            boolean plain = each >= ' ' && each < 127 && each != '"' && each != '\\';
            made.append(plain ? String.valueOf(each) : String.format("\\u%04x", (int) each));
        }
        return made.append('"').toString();
    }

    public static void main(String[] arguments) throws IOException {
        Cells cells = new Cells();
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> cells.interrupt());
        try (BufferedReader asks = new BufferedReader(new FileReader("/dev/fd/" + arguments[0]));
             OutputStream answers = new FileOutputStream("/dev/fd/" + arguments[1])) {
            for (String line; (line = asks.readLine()) != null; ) {
                Matcher asked = ASKED.matcher(line);
                String answer = asked.matches() ? cells.run(unquoted(asked.group(1))) : "{\"result\": null}";
                System.out.flush();
                answers.write((answer + "\n").getBytes(StandardCharsets.US_ASCII));
            }
        }
        System.exit(0);
    }
}
