# Runs cells of R one after the other; limpet_languages/live.py says how it is asked.
local({
  fds <- commandArgs(TRUE)
  asks <- file(paste0("/dev/fd/", fds[1]), "r", blocking = TRUE, raw = TRUE)
  answers <- file(paste0("/dev/fd/", fds[2]), "w", raw = TRUE)
  folder <- tempfile("limpet-plots-")
  dir.create(folder)
  options(warn = 1, device = function() {
    png(file.path(folder, "%03d.png"), width = 960, height = 720, res = 144)
  })

  answer <- function(...) {
    writeLines(jsonlite::toJSON(list(...), auto_unbox = TRUE, null = "null"), answers)
    flush(answers)
  }

  show_plots <- function() {
    graphics.off()
    for (path in sort(list.files(folder, full.names = TRUE))) {
      bytes <- readBin(path, "raw", file.size(path))
      unlink(path)
      answer(display = list("image/png" = gsub("\n", "", jsonlite::base64_enc(bytes))))
    }
  }

  trace <- NULL # where the code that runs has come to when an error was raised, the outermost first

  place <- function(call, source) {
    if (!inherits(source, "srcref")) return(NULL)
    name <- attr(source, "srcfile")$filename
    if (startsWith(name, "cell ")) paste0("  ", name, ":", source[1], ": ", deparse(call)[1], "\n")
  }

  note <- function(expression, source) {
    calls <- sys.calls()
    trace <<- c(place(expression, source), unlist(lapply(calls, function(call) place(call, attr(call, "srcref")))))
  }

  # The text of the last value, where it is visible; those before are printed, as at R's own prompt.
  evaluate <- function(code, number) {
    result <- NULL
    trace <<- NULL
    source <- srcfilecopy(paste("cell", number), strsplit(code, "\n")[[1]])
    expressions <- parse(text = code, srcfile = source, keep.source = TRUE)
    for (i in seq_along(expressions)) {
      if (!is.null(result)) cat(result, sep = "\n")
      result <- NULL
      value <- withCallingHandlers(
        withVisible(eval(expressions[[i]], globalenv())),
        error = function(condition) note(expressions[[i]], attr(expressions, "srcref")[[i]])
      )
      if (value$visible) result <- utils::capture.output(print(value$value))
    }
    if (is.null(result)) NULL else paste(result, collapse = "\n")
  }

  described <- function(condition) {
    call <- conditionCall(condition)
    own <- is.null(call) || deparse(call[[1]])[1] %in% c("eval", "parse")
    origin <- if (own) "Error: " else paste0("Error in ", deparse(call)[1], ": ")
    name <- sub("^simpleError$", "Error", class(condition)[1])
    list(name, conditionMessage(condition), paste0(c(origin, conditionMessage(condition), "\n", trace), collapse = ""))
  }

  # Only what a cell does is interrupted: an interrupt that came while its answer is made, or between two cells, would
  # end the program, and the variables with it.
  run <- function(asked) {
    tryCatch(
      list(result = allowInterrupts(evaluate(asked$code, asked$number))),
      error = function(condition) list(error = described(condition)),
      interrupt = function(condition) list(error = list("Interrupt", "", ""))
    )
  }

  # One that came too late for a cell is not for the next one.
  forget_interrupts <- function() {
    tryCatch(allowInterrupts(Sys.sleep(0)), interrupt = function(condition) forget_interrupts())
  }

  suspendInterrupts(repeat {
    line <- readLines(asks, 1)
    if (length(line) == 0) break
    forget_interrupts()
    done <- run(jsonlite::fromJSON(line))
    show_plots()
    flush(stdout())
    do.call(answer, done)
  })
})
