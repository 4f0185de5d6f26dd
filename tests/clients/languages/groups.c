/* What applications do with hiredis: `groups PORT`. Prints the replies, one a line. */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void show(const redisReply *reply) {
  if (reply->type == REDIS_REPLY_INTEGER) printf("%lld ", reply->integer);
  else if (reply->type == REDIS_REPLY_NIL) printf("nil ");
  else if (reply->type == REDIS_REPLY_ARRAY) for (size_t i = 0; i < reply->elements; i++) show(reply->element[i]);
  else printf("%s ", reply->str);
}

static void call(redisContext *context, const char *format, ...) {
  va_list words;
  va_start(words, format);
  redisReply *reply = redisvCommand(context, format, words);
  va_end(words);
  if (reply == NULL) exit(1);
  show(reply);
  printf("\n");
  freeReplyObject(reply);
}

int main(int count, char **words) {
  redisContext *context = redisConnect("127.0.0.1", count > 1 ? atoi(words[1]) : 6379);
  if (context == NULL || context->err) return 1;
  call(context, "XGROUP CREATE s g 0 MKSTREAM");
  call(context, "XADD s 1-1 item %b", "te\0a", (size_t)4);
  call(context, "XREADGROUP GROUP g ann COUNT 1 STREAMS s >");
  call(context, "XCLAIM s g bob 0 1-1 JUSTID");
  call(context, "XACK s g 1-1");
  call(context, "SET lock ann NX PX 60000");
  call(context, "SET lock bob NX PX 60000");
  for (int i = 0; i < 3; i++) redisAppendCommand(context, "INCR n");
  for (int i = 0; i < 3; i++) {
    redisReply *reply;
    if (redisGetReply(context, (void **)&reply) != REDIS_OK) return 1;
    show(reply);
    freeReplyObject(reply);
  }
  printf("\n");
  redisFree(context);
  return 0;
}
