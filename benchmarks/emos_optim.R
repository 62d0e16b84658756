# EMOS by point with R's optim, L-BFGS-B with the analytic gradient, as emos_scipy.py, which has the model and the
# arguments: DATA POINTS DATES FIRST OUT
a <- commandArgs(TRUE)
points <- as.integer(a[2]); dates <- as.integer(a[3]); first <- as.integer(a[4])
data <- array(readBin(a[1], "numeric", 3 * dates * points, size = 4, endian = "little"), c(points, dates, 3))

fit <- function(m, s, y) {
  centre <- mean(m); level <- mean(y)
  m <- m - centre; y <- y - level
  b <- sum(m * y) / sum(m * m)
  residual <- sqrt(mean((y - b * m)^2))
  value <- function(t) {
    sigma <- t[3] + t[4] * s
    z <- (y - t[1] - t[2] * m) / sigma
    mean(sigma * (z * (2 * pnorm(z) - 1) + 2 * dnorm(z) - 1 / sqrt(pi)))
  }
  gradient <- function(t) {
    sigma <- t[3] + t[4] * s
    z <- (y - t[1] - t[2] * m) / sigma
    dmu <- 1 - 2 * pnorm(z); dsigma <- 2 * dnorm(z) - 1 / sqrt(pi)
    c(mean(dmu), mean(dmu * m), mean(dsigma), mean(dsigma * s))
  }
  t <- optim(c(0, b, 0.5 * residual, 0.5 * residual / mean(s)), value, gradient, method = "L-BFGS-B",
             lower = c(-Inf, -Inf, 1e-3 * residual, 0), control = list(factr = 10, pgtol = 1e-7, maxit = 500))$par
  c(level + t[1] - t[2] * centre, t[2], t[3], t[4])
}

invisible(fit(data[1, , 1], data[1, , 2], data[1, , 3]))
seconds <- system.time(theta <- sapply(1:first, function(p) fit(data[p, , 1], data[p, , 2], data[p, , 3])))[["elapsed"]]
cat(seconds, "\n")
writeBin(as.vector(theta), a[5], size = 8, endian = "little")
