"""boto3 in its standard mode: reads objects; see operations.py."""

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from operations import BASE, RETRIES, TIMEOUT, Log, each, target

config = Config(
    connect_timeout=TIMEOUT,
    read_timeout=TIMEOUT,
    retries={"mode": "standard", "total_max_attempts": RETRIES + 1},
    s3={"addressing_style": "path"},
    proxies={},
)
s3 = boto3.client(
    "s3",
    endpoint_url=BASE,
    region_name="us-east-1",
    aws_access_key_id="test",
    aws_secret_access_key="test",
    config=config,
)
for op in each():
    with Log(op) as line:
        # The target /op/7 is the object 7 in the bucket op; /hot/hot is always the same.
        bucket, key = (target(op).lstrip("/") + "/hot").split("/")[:2]
        try:
            answer = s3.get_object(Bucket=bucket, Key=key)
            answer["Body"].read()
        except ClientError as error:
            answer = error.response
        line["status"] = answer["ResponseMetadata"]["HTTPStatusCode"]
        line["tries"] = 1 + answer["ResponseMetadata"].get("RetryAttempts", 0)
